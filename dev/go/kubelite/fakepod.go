package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	phaseAnnotation = "fake-kubelet.kuberay.dev/phase"
	readyAnnotation = "fake-kubelet.kuberay.dev/ready"
	delayAnnotation = "fake-kubelet.kuberay.dev/delay"
	holdAnnotation  = "fake-kubelet.kuberay.dev/hold"
)

// wish is what a pod's annotations ask for. Without any: Running and ready, at once.
type wish struct {
	phase corev1.PodPhase
	ready bool
	delay time.Duration
	hold  bool
}

var (
	runningUntilItEnds = wish{phase: corev1.PodRunning, ready: true}
	completed          = wish{phase: corev1.PodSucceeded}
)

// ends says whether the wish is the end of the pod.
func (w wish) ends() bool { return w.phase == corev1.PodSucceeded || w.phase == corev1.PodFailed }

func readWish(pod *corev1.Pod) (wish, error) {
	result := runningUntilItEnds
	var err error
	if text, given := pod.Annotations[phaseAnnotation]; given {
		result.phase = corev1.PodPhase(text)
		switch result.phase {
		case corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		default:
			return result, fmt.Errorf("annotation %s: %q is none of Pending, Running, Succeeded, Failed", phaseAnnotation, text)
		}
	}
	if text, given := pod.Annotations[readyAnnotation]; given {
		if result.ready, err = strconv.ParseBool(text); err != nil {
			return result, fmt.Errorf("annotation %s: %w", readyAnnotation, err)
		}
	}
	if text, given := pod.Annotations[delayAnnotation]; given {
		if result.delay, err = time.ParseDuration(text); err != nil {
			return result, fmt.Errorf("annotation %s: %w", delayAnnotation, err)
		}
	}
	if text, given := pod.Annotations[holdAnnotation]; given {
		if result.hold, err = strconv.ParseBool(text); err != nil {
			return result, fmt.Errorf("annotation %s: %w", holdAnnotation, err)
		}
	}
	return result, nil
}

func started(pod *corev1.Pod) bool { return pod.Status.StartTime != nil }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// keepWhatStatusNeeds drops from the cache all that a status write does not look at.
func keepWhatStatusNeeds(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	spec := corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork}
	for _, container := range pod.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers,
			corev1.Container{Name: container.Name, Image: container.Image, RestartPolicy: container.RestartPolicy})
	}
	for _, container := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: container.Name, Image: container.Image})
	}
	pod.Spec = spec
	return pod, nil
}

// statusFor is the status of a pod whose wish came true now; what others put there (own conditions, start time) stays.
func statusFor(pod *corev1.Pod, wish wish, hostIP, podIP string, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.Phase = wish.phase
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	status.PodIP, status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	serving := wish.ready && !wish.ends()
	notReady := ""
	switch {
	case wish.phase == corev1.PodSucceeded:
		notReady = "PodCompleted"
	case wish.phase == corev1.PodFailed:
		notReady = "PodFailed"
	case !wish.ready:
		notReady = "ContainersNotReady"
	}
	setCondition(&status, corev1.PodScheduled, true, "", now)
	setCondition(&status, corev1.PodReadyToStartContainers, !wish.ends(), "", now)
	setCondition(&status, corev1.PodInitialized, true, "", now)
	setCondition(&status, corev1.ContainersReady, serving, notReady, now)
	setCondition(&status, corev1.PodReady, serving, notReady, now)
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		sidecar := container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if sidecar {
			status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(pod, container, wish, *status.StartTime, now))
			continue
		}
		done := containerStatus(pod, container, completed, *status.StartTime, *status.StartTime)
		done.Ready = true
		status.InitContainerStatuses = append(status.InitContainerStatuses, done)
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(pod, container, wish, *status.StartTime, now))
	}
	return status
}

func containerStatus(pod *corev1.Pod, container corev1.Container, wish wish, since, now metav1.Time) corev1.ContainerStatus {
	alive := !wish.ends()
	id := "fake://" + string(pod.UID) + "/" + container.Name
	status := corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: container.Image, ContainerID: id,
		Ready: alive && wish.ready, Started: &alive,
	}
	if alive {
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: since}
		return status
	}
	ended := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: since, FinishedAt: now, ContainerID: id}
	if wish.phase == corev1.PodFailed {
		ended.ExitCode, ended.Reason = 1, "Error"
	}
	status.State.Terminated = ended
	return status
}

func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, holds bool, reason string, now metav1.Time) {
	value := corev1.ConditionFalse
	if holds {
		value = corev1.ConditionTrue
	}
	for i := range status.Conditions {
		if condition := &status.Conditions[i]; condition.Type == kind {
			if condition.Status != value {
				condition.LastTransitionTime = now
			}
			condition.Status, condition.Reason, condition.Message = value, reason, ""
			return
		}
	}
	status.Conditions = append(status.Conditions,
		corev1.PodCondition{Type: kind, Status: value, Reason: reason, LastTransitionTime: now})
}

// podAddresses gives each pod an address of its own in 10.16.0.0/12, never one ending in 0 or 255, and none twice
// before a million pods.
type podAddresses struct{ last atomic.Uint32 }

const (
	firstPodAddress = 10<<24 | 16<<16
	podAddressCount = 1 << 20
)

func (a *podAddresses) next() string {
	for {
		offset := a.last.Add(1) % podAddressCount
		if end := offset & 0xff; end == 0 || end == 0xff {
			continue
		}
		return net.IP(binary.BigEndian.AppendUint32(nil, firstPodAddress+offset)).String()
	}
}

// taken keeps an address that is in use from being given out again.
func (a *podAddresses) taken(address string) {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return
	}
	if offset := binary.BigEndian.Uint32(ip) - firstPodAddress; offset < podAddressCount && offset > a.last.Load() {
		a.last.Store(offset)
	}
}
