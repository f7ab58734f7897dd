package main

import (
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand runs a one-member etcd that is fast and forgetful: it never waits for the disk, and its data does not
// outlive the cluster.
func newEtcdCommand() *cobra.Command {
	var dataDir, client, peer string
	cmd := &cobra.Command{Use: "etcd", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		clientURL, err := url.Parse(client)
		if err != nil {
			return err
		}
		peerURL, err := url.Parse(peer)
		if err != nil {
			return err
		}
		cfg := embed.NewConfig()
		cfg.Dir = dataDir
		cfg.LogLevel = "warn"
		cfg.UnsafeNoFsync = true
		cfg.WarningUnaryRequestDuration = time.Minute
		cfg.QuotaBackendBytes = 8 << 30
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
		cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
		server, err := embed.StartEtcd(cfg)
		if err != nil {
			return err
		}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		select {
		case err := <-server.Err():
			return err
		case <-stop:
			server.Close()
			return nil
		}
	}}
	cmd.Flags().StringVar(&dataDir, "data-dir", "etcd", "where the data lives")
	cmd.Flags().StringVar(&client, "listen", "http://127.0.0.1:2379", "address for clients")
	cmd.Flags().StringVar(&peer, "listen-peer", "http://127.0.0.1:2380", "address for peers (there are none)")
	return cmd
}
