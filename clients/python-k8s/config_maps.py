"""List, watch and resume: the ConfigMaps of a namespace, with the `kubernetes` package.

    python config_maps.py KUBECONFIG [NAMESPACE]

Prints one JSON line for each event: first the objects there are, then every change, once and in order. A watch that ends
goes on from the last revision seen; when the server no longer holds that history (410) everything is listed anew, and what
has changed meanwhile is told as a difference, deletions too.
"""

import json
import sys
import time

import urllib3
from kubernetes import client, config, watch


def tell(kind, uid, name, revision):
    print(json.dumps({"type": kind, "name": name, "uid": uid, "revision": int(revision)}), flush=True)


def facts(item):
    return item.metadata.uid, item.metadata.name, item.metadata.resource_version


def difference(known, items):
    """What a list says beside what was known: uid -> (uid, name, revision)."""
    now = {item.metadata.uid: facts(item) for item in items}
    for uid in [uid for uid in known if uid not in now]:
        tell("DELETED", *known.pop(uid))
    for uid, fact in sorted(now.items(), key=lambda entry: int(entry[1][2])):
        if uid not in known:
            tell("ADDED", *fact)
        elif known[uid] != fact:
            tell("MODIFIED", *fact)
        known[uid] = fact


def main(kubeconfig, namespace="default"):
    config.load_kube_config(kubeconfig)
    api = client.CoreV1Api()
    known, revision = {}, None  # None: to be listed anew
    while True:
        try:
            if revision is None:
                listed = api.list_namespaced_config_map(namespace)
                difference(known, listed.items)
                revision = listed.metadata.resource_version
            stream = watch.Watch()
            for event in stream.stream(api.list_namespaced_config_map, namespace, resource_version=revision,
                                       allow_watch_bookmarks=True, timeout_seconds=60, _request_timeout=(5, 65)):
                item = event["object"]
                if event["type"] == "BOOKMARK":
                    revision = item["metadata"]["resourceVersion"] if isinstance(item, dict) else item.metadata.resource_version
                    continue
                revision = item.metadata.resource_version
                tell(event["type"], *facts(item))
                if event["type"] == "DELETED":
                    known.pop(item.metadata.uid, None)
                else:
                    known[item.metadata.uid] = facts(item)
        except client.ApiException as error:
            if error.status == 410:
                print("expired: listing anew", file=sys.stderr, flush=True)
                revision = None
            elif error.status < 500:
                raise
            else:
                time.sleep(0.1)
        except urllib3.exceptions.HTTPError as error:
            print(f"going on from revision {revision}: {type(error).__name__}", file=sys.stderr, flush=True)
            time.sleep(0.1)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
