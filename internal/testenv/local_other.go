//go:build !unix

package testenv

import "errors"

var errNoLocal = errors.New("local servers are started on Unix only: use Docker or IDEM_TEST_POSTGRES_URL")

func lockDir(string) (unlock func(), err error) { return func() {}, nil }

func killLeftovers(string) {}

func startLocalPostgres([]string) (instance, access, error) { return nil, access{}, errNoLocal }

func startPgBouncer(*PostgresServer) (instance, error) { return nil, errNoLocal }
