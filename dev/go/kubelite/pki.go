package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// identity is one certificate of the cluster: who it says it is, and the addresses it serves (none for pure clients).
type identity struct {
	file, commonName, organization string
	dnsNames                       []string
	addresses                      []net.IP
}

// newPKICommand writes the authority, the service account key and the certificates into a directory, as NAME.crt and
// NAME.key. P-256 keys: made in no time. Clients of the API server have tokens, which cost it less than certificates.
func newPKICommand() *cobra.Command {
	var dir, nodeName string
	var nodeIP, serviceIP net.IP
	cmd := &cobra.Command{Use: "pki", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		loopback := net.IPv4(127, 0, 0, 1)
		kubernetes := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"}
		return writePKI(dir, []identity{
			{"apiserver", "kube-apiserver", "", kubernetes, []net.IP{loopback, nodeIP, serviceIP}},
			{"kubelet", "kubelet", "", []string{nodeName}, []net.IP{nodeIP}},
			{file: "kubelet-client", commonName: "apiserver-kubelet-client", organization: "system:masters"},
			{file: "front-proxy", commonName: "front-proxy-client"},
		})
	}}
	cmd.Flags().StringVar(&dir, "dir", "pki", "where the files go")
	cmd.Flags().StringVar(&nodeName, "node-name", "node0", "name of the node")
	cmd.Flags().IPVar(&nodeIP, "node-ip", nil, "address of the node, where the API server listens")
	cmd.Flags().IPVar(&serviceIP, "service-ip", nil, "address of the service kubernetes.default")
	return cmd
}

func writePKI(dir string, identities []identity) error {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kuberay-dev"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := newKey(dir, "ca")
	if err != nil {
		return err
	}
	if err := sign(dir, "ca", ca, ca, caKey.Public(), caKey); err != nil {
		return err
	}
	serviceAccount, err := newKey(dir, "service-account")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(serviceAccount.Public())
	if err != nil {
		return err
	}
	if err := writePEM(dir, "service-account.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	for number, id := range identities {
		key, err := newKey(dir, id.file)
		if err != nil {
			return err
		}
		subject := pkix.Name{CommonName: id.commonName}
		if id.organization != "" {
			subject.Organization = []string{id.organization}
		}
		usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if len(id.addresses) > 0 {
			usage = append(usage, x509.ExtKeyUsageServerAuth)
		}
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(int64(number) + 2), Subject: subject, DNSNames: id.dnsNames, IPAddresses: id.addresses,
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage,
		}
		if err := sign(dir, id.file, leaf, ca, key.Public(), caKey); err != nil {
			return err
		}
	}
	return nil
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(dir, name+".key", "EC PRIVATE KEY", der)
}

func sign(dir, name string, certificate, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, public, signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	return writePEM(dir, name+".crt", "CERTIFICATE", der)
}

func writePEM(dir, file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
