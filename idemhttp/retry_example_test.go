package idemhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/idem-go/idem/idemhttp"
)

// A queue that keeps its requests for days asks of every answer what it is worth.
func ExampleJudge() {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnprocessableEntity} {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)

		resp := w.Result()
		if v := idemhttp.Judge(resp); v.Retry {
			fmt.Println(status, "again with the same key, in", v.After)
		} else {
			fmt.Println(status, "is the last word")
		}
		resp.Body.Close()
	}
	// Output:
	// 503 again with the same key, in 2m0s
	// 422 is the last word
}
