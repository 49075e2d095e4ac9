package idem

import "context"

type keyOfIntent struct{}

// ContextWithKey returns a context that carries the key of an intent to the clients that
// send it: idemhttp.Transport and the interceptors of idemgrpc put it on every request
// that is made with the context, the retries included. Make the key when the user
// decides, once, and keep it until the answer is there; package intent does.
//
// A key made for each try protects nobody. That is why no client makes one.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfIntent{}, key)
}

// KeyFromContext returns the key that ContextWithKey put there.
func KeyFromContext(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(keyOfIntent{}).(string)
	return key, ok
}
