//go:build !unix

package testenv

func startLocalEtcd([]string) (instance, error) { return nil, errNoLocal }

func startLocalEtcdSet([]string) (*etcdSet, error) { return nil, errNoLocal }
