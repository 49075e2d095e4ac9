//go:build !unix

package testenv

func startLocalEtcd([]string) (instance, error) { return nil, errNoLocal }
