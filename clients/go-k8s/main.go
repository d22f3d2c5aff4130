// Informer: the ConfigMaps of a namespace through client-go's shared informer.
//
//	go-k8s [-list] [-protobuf] KUBECONFIG [NAMESPACE]
//
// Prints one JSON line for each thing that the informer tells: what is new, what has changed, what is gone. What it tells
// anew without a change (after a relist) is left out, and an object that was made anew under its name is told as one that
// went and one that came, since an informer gives both as an update.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	UID      string `json:"uid"`
	Revision int64  `json:"revision"`
}

func tell(kind string, object *corev1.ConfigMap) {
	revision, err := strconv.ParseInt(object.ResourceVersion, 10, 64)
	if err != nil {
		fail(fmt.Errorf("resourceVersion %q of %s: %w", object.ResourceVersion, object.Name, err))
	}
	text, err := json.Marshal(line{kind, object.Name, string(object.UID), revision})
	if err != nil {
		fail(err)
	}
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	list := flag.Bool("list", false, "list, then watch, in place of a streaming list")
	protobuf := flag.Bool("protobuf", false, "ask for protobuf first, as the components of Kubernetes do")
	flag.Parse()
	if flag.NArg() < 1 || flag.NArg() > 2 {
		fail(fmt.Errorf("usage: go-k8s [-list] [-protobuf] KUBECONFIG [NAMESPACE]"))
	}
	if *list {
		// Read by client-go when its first feature is asked for.
		os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	}
	namespace := "default"
	if flag.NArg() == 2 {
		namespace = flag.Arg(1)
	}
	config, err := clientcmd.BuildConfigFromFlags("", flag.Arg(0))
	if err != nil {
		fail(err)
	}
	if *protobuf {
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		config.ContentType = "application/vnd.kubernetes.protobuf"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { tell("ADDED", object.(*corev1.ConfigMap)) },
		UpdateFunc: func(before, after any) {
			old, now := before.(*corev1.ConfigMap), after.(*corev1.ConfigMap)
			switch {
			case old.UID != now.UID:
				tell("DELETED", old)
				tell("ADDED", now)
			case old.ResourceVersion != now.ResourceVersion:
				tell("MODIFIED", now)
			}
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			tell("DELETED", object.(*corev1.ConfigMap))
		},
	})
	if err != nil {
		fail(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
	close(stop)
	factory.Shutdown()
}
