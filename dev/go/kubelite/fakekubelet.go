package main

import (
	"context"
	"net"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// newFakeKubeletCommand "runs" every pod that no scheduler has given to a node, by writing its status: one write per
// pod, cheap enough to stand beside a benchmark. fakepod.go decides what a pod becomes.
func newFakeKubeletCommand() *cobra.Command {
	var kubeconfig string
	var hostIP net.IP
	var workers int
	cmd := &cobra.Command{Use: "fakekubelet", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return err
		}
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		config.UserAgent = "fakekubelet"
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		debug.SetGCPercent(400) // a benchmark runs beside us; memory is cheaper than time
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		newFakeKubelet(client, hostIP.String()).run(ctx, workers)
		return nil
	}}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	cmd.Flags().IPVar(&hostIP, "host-ip", net.IPv4(10, 77, 0, 1), "the host address that pods report")
	cmd.Flags().IntVar(&workers, "workers", 8, "pods started at the same time")
	return cmd
}

type fakeKubelet struct {
	client    kubernetes.Interface
	hostIP    string
	pods      cache.Store
	informer  cache.Controller
	queue     workqueue.TypedRateLimitingInterface[string]
	mutex     sync.Mutex
	progress  map[types.UID]progress
	addresses podAddresses
}

// progress is what was done for a pod under one wish; a changed wish starts anew.
type progress struct {
	wish wish
	due  time.Time
	done bool
}

func newFakeKubelet(client kubernetes.Interface, hostIP string) *fakeKubelet {
	kubelet := &fakeKubelet{
		client: client,
		hostIP: hostIP,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 5*time.Second)),
		progress: map[types.UID]progress{},
	}
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			kubelet.queue.Add(key)
		}
	}
	unassigned := fields.OneTermEqualSelector("spec.nodeName", "")
	kubelet.pods, kubelet.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, unassigned),
		ObjectType:    &corev1.Pod{},
		Transform:     keepWhatStatusNeeds,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    enqueue,
			UpdateFunc: func(_, object any) { enqueue(object) },
			DeleteFunc: func(object any) {
				if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = tombstone.Obj
				}
				if pod, ok := object.(*corev1.Pod); ok {
					kubelet.forget(pod.UID)
				}
			},
		},
	})
	return kubelet
}

func (k *fakeKubelet) run(ctx context.Context, workers int) {
	go k.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), k.informer.HasSynced) {
		return
	}
	for _, object := range k.pods.List() {
		k.addresses.taken(object.(*corev1.Pod).Status.PodIP)
	}
	klog.InfoS("Running pods by status", "workers", workers)
	for range workers {
		go func() {
			for k.next(ctx) {
			}
		}()
	}
	<-ctx.Done()
	k.queue.ShutDown()
}

func (k *fakeKubelet) next(ctx context.Context) bool {
	key, stopped := k.queue.Get()
	if stopped {
		return false
	}
	defer k.queue.Done(key)
	err := k.sync(ctx, key)
	switch {
	case err == nil || apierrors.IsNotFound(err):
		k.queue.Forget(key)
	default:
		if !apierrors.IsConflict(err) && ctx.Err() == nil {
			klog.ErrorS(err, "Could not write the status of a pod, will try again", "pod", key)
		}
		k.queue.AddRateLimited(key)
	}
	return true
}

func (k *fakeKubelet) sync(ctx context.Context, key string) error {
	object, exists, err := k.pods.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := object.(*corev1.Pod)
	wish, err := readWish(pod)
	if err != nil {
		klog.ErrorS(err, "Leaving a pod alone", "pod", key)
		return nil
	}
	if wish.hold || wish.phase == corev1.PodPending || pod.DeletionTimestamp != nil || finished(pod) {
		return nil
	}
	state := k.progressOf(pod, wish)
	if state.done {
		return nil
	}
	if wait := time.Until(state.due); wait > 0 {
		k.queue.AddAfter(key, wait)
		if !wish.ends() || started(pod) {
			return nil
		}
		// On its way to Succeeded or Failed a pod runs first; the delay is how long.
		return k.write(ctx, pod, runningUntilItEnds)
	}
	if err := k.write(ctx, pod, wish); err != nil {
		return err
	}
	k.remember(pod.UID, func(state *progress) { state.done = true })
	return nil
}

// progressOf starts the clock of a wish that is new. A pod found in the wished phase already (after a restart of this
// process) is left as it is.
func (k *fakeKubelet) progressOf(pod *corev1.Pod, wish wish) progress {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state, known := k.progress[pod.UID]
	if !known || state.wish != wish {
		state = progress{wish: wish, due: time.Now().Add(wish.delay), done: !known && started(pod) && pod.Status.Phase == wish.phase}
		k.progress[pod.UID] = state
	}
	return state
}

func (k *fakeKubelet) remember(uid types.UID, change func(*progress)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if state, known := k.progress[uid]; known {
		change(&state)
		k.progress[uid] = state
	}
}

func (k *fakeKubelet) forget(uid types.UID) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.progress, uid)
}

func (k *fakeKubelet) write(ctx context.Context, pod *corev1.Pod, wish wish) error {
	podIP := pod.Status.PodIP
	if podIP == "" {
		podIP = k.hostIP
		if !pod.Spec.HostNetwork {
			podIP = k.addresses.next()
		}
	}
	// The API server takes spec and owners from what it has stored; sending none of them saves its time and ours.
	update := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Status: statusFor(pod, wish, k.hostIP, podIP, metav1.Now())}
	update.OwnerReferences = nil
	// The answer is not decoded: the watch brings the pod anyway.
	return k.client.CoreV1().RESTClient().Put().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("status").Body(update).Do(ctx).Error()
}
