"""List, watch and resume: the pods of a cluster, with stock gRPC.

    python pods.py KUBECONFIG [NAMESPACE]

The cluster's state comes first, then every change, once and in order. After a cut or a restart of the server the watch
goes on from the last revision it has seen; when history no longer reaches back that far (OUT_OF_RANGE), it lists anew.
"""

import base64
import json
import sys
import time

import grpc
import yaml

import listwatch.v1.resources_pb2 as pb
import listwatch.v1.resources_pb2_grpc as rpc

TYPES = {pb.ADDED: "ADDED", pb.MODIFIED: "MODIFIED", pb.DELETED: "DELETED"}


def connect(path):
    """A channel for the current context of a kubeconfig with embedded certificates."""
    config = yaml.safe_load(open(path))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    decode = lambda entry, key: base64.b64decode(entry[key])
    credentials = grpc.ssl_channel_credentials(
        root_certificates=decode(cluster, "certificate-authority-data"),
        private_key=decode(user, "client-key-data"),
        certificate_chain=decode(user, "client-certificate-data"),
    )
    return grpc.secure_channel(cluster["server"].removeprefix("https://"), credentials)


def watch(stub, resource, seen=0, incarnation=""):
    """Yields (type, revision, object) for ever; resumes by itself."""
    while True:
        request = pb.WatchRequest(resource=resource, start_revision=seen, incarnation=incarnation,
                                  send_initial_events=seen == 0, allow_bookmarks=True)
        try:
            for message in stub.Watch(request):
                incarnation = message.header.incarnation
                for event in message.events:
                    if event.type in TYPES:
                        yield TYPES[event.type], event.revision, json.loads(event.object.json)
                    # A bookmark counts too; before the initial state is complete there is nothing to resume from.
                    if seen or event.initial_events_end:
                        seen = max(seen, event.revision)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                seen, incarnation = 0, ""
            elif error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
        time.sleep(0.1)


def main():
    namespace = sys.argv[2] if len(sys.argv) > 2 else ""
    stub = rpc.ResourcesStub(connect(sys.argv[1]))
    for kind, revision, pod in watch(stub, pb.ResourceRef(resource="pods", namespace=namespace)):
        meta, status = pod["metadata"], pod.get("status", {})
        print(kind, revision, f"{meta['namespace']}/{meta['name']}", status.get("phase", ""), flush=True)


if __name__ == "__main__":
    main()
