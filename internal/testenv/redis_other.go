//go:build !unix

package testenv

import "errors"

func startLocalRedis(redisConfig) (*redisServer, error) {
	return nil, errors.New("local servers are started on Unix only: use Docker or IDEM_TEST_REDIS_URL")
}
