// Command kubelite is a whole Kubernetes in one binary: each component is a sub-command, next to the two things
// only a development cluster needs (its certificates and a fake kubelet).
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the plugin's arguments and their defaults
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

var components = map[string]func() *cobra.Command{
	"etcd":               newEtcdCommand,
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": controllermanager.NewControllerManagerCommand,
	"scheduler": func() *cobra.Command {
		return scheduler.NewSchedulerCommand(scheduler.WithPlugin(coscheduling.Name, coscheduling.New))
	},
	"kubelet":     func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"proxy":       kubeproxy.NewProxyCommand,
	"fakekubelet": newFakeKubeletCommand,
	"pki":         newPKICommand,
}

func main() {
	var component func() *cobra.Command
	if len(os.Args) > 1 {
		component = components[os.Args[1]]
	}
	if component == nil {
		fmt.Fprintln(os.Stderr, "usage: kubelite etcd|apiserver|controller-manager|scheduler|kubelet|proxy|fakekubelet|pki [flags]")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(component()))
}
