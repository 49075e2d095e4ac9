package redis_test

import (
	"context"
	"log"
	"os"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/redis"
)

func ExampleNew() {
	ctx := context.Background()
	opts, err := goredis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client := goredis.NewClient(opts)
	defer client.Close()
	b, err := redis.New(client,
		redis.WithPrefix("payments:idem:"),
		redis.WithReplicas(1, 100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	d, err := b.Describe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range d.Findings {
		log.Printf("%s: %s (%s)", f.ID, f.Text, f.Advice)
	}
}
