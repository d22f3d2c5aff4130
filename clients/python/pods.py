"""List, watch and resume: the pods of a cluster, with stock gRPC.

    python pods.py KUBECONFIG [NAMESPACE]

Prints one JSON line for each event: first the pods there are, then every change, once and in order of revision. A
stream that breaks (the server restarts, the connection is cut or goes silent) goes on from the last revision seen. When
the server no longer holds that history it is asked for the whole state, and what has changed meanwhile comes as events
made up from the difference, deletions too. Those are marked "source": "state"; they are all a client can know then.
"""

import base64
import json
import random
import sys
import time

import grpc
import yaml

import listwatch.v1.resources_pb2 as pb
import listwatch.v1.resources_pb2_grpc as rpc

TYPES = {pb.ADDED: "ADDED", pb.MODIFIED: "MODIFIED", pb.DELETED: "DELETED"}
# Asking again does not help against these: the request, or who sends it, is wrong.
FATAL = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED,
         grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
CHANNEL = [
    # gRPC's own pauses between attempts grow to two minutes; a server is back within seconds.
    ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 2000),
    # A connection that is dead but not closed is found out by pings, also while only the server has something to say.
    ("grpc.keepalive_time_ms", 5000), ("grpc.http2.ping_timeout_ms", 3000), ("grpc.http2.max_pings_without_data", 0),
    # A message holds about 2 MiB of events, but never less than one whole revision.
    ("grpc.max_receive_message_length", 64 << 20),
]


def connect(path):
    """A channel for the current context of a kubeconfig with embedded certificates, as `lw up` writes it."""
    with open(path) as file:
        config = yaml.safe_load(file)
    pick = lambda kind, name: next(e[kind] for e in config[kind + "s"] if e["name"] == name)
    context = pick("context", config["current-context"])
    cluster, user = pick("cluster", context["cluster"]), pick("user", context["user"])
    credentials = grpc.ssl_channel_credentials(
        root_certificates=base64.b64decode(cluster["certificate-authority-data"]),
        private_key=base64.b64decode(user["client-key-data"]),
        certificate_chain=base64.b64decode(user["client-certificate-data"]),
    )
    return grpc.secure_channel(cluster["server"].removeprefix("https://"), credentials, CHANNEL)


def watch(stub, resource):
    """Yields (type, revision, object, source) for ever: each change once, in order, whatever breaks in between."""
    known = {}  # uid -> object, as the events so far have told
    seen, incarnation = 0, ""  # where to go on, and in which history; 0: with the whole state
    pause = 0.1
    while True:
        state = None if seen else {}  # not None: the state is still coming in, and is judged as a whole
        request = pb.WatchRequest(resource=resource, start_revision=seen, incarnation=incarnation,
                                  send_initial_events=not seen, allow_bookmarks=True)
        try:
            for message in stub.Watch(request):
                for event in message.events:
                    uid = event.object.uid
                    if event.initial_events_end:
                        before, known, state = known, state, None
                        yield from difference(before, known, event.revision)
                    elif event.type not in TYPES:
                        pass  # a bookmark says only how far the stream has come, as every header does
                    elif state is not None:
                        state[uid] = json.loads(event.object.json)
                    else:
                        known[uid] = json.loads(event.object.json)
                        pod = known.pop(uid) if event.type == pb.DELETED else known[uid]
                        yield TYPES[event.type], event.revision, pod, "watch"
                if state is None:  # a state half told is nothing to go on from
                    seen, incarnation, pause = message.header.revision, message.header.incarnation, 0.1
            reason = "the stream has ended"
        except grpc.RpcError as error:
            if error.code() in FATAL:
                raise
            if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                seen, incarnation = 0, ""
            reason = f"{error.code().name}: {error.details()}"
        print(f"{reason}; going on {f'from revision {seen}' if seen else 'with the whole state'}", file=sys.stderr,
              flush=True)
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(pause * 2, 2)


def difference(before, now, revision):
    """The events that lead from one state to another: first what is gone, at the revision where that was seen."""
    for uid in before.keys() - now.keys():
        yield "DELETED", revision, before[uid], "state"
    version = lambda pod: int(pod["metadata"]["resourceVersion"])
    for pod in sorted(now.values(), key=version):
        old = before.get(pod["metadata"]["uid"])
        if old is None or version(old) != version(pod):
            yield "MODIFIED" if old else "ADDED", version(pod), pod, "state"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.split("\n\n")[1].strip())
    resource = pb.ResourceRef(resource="pods", namespace=sys.argv[2] if len(sys.argv) > 2 else "")
    try:
        for type, revision, pod, source in watch(rpc.ResourcesStub(connect(sys.argv[1])), resource):
            meta = pod["metadata"]
            print(json.dumps({"type": type, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"],
                              "revision": revision, "phase": pod.get("status", {}).get("phase"), "source": source}),
                  flush=True)
    except grpc.RpcError as error:
        sys.exit(f"error: {error.details()}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
