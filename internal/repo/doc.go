// Package repo has no code. Its tests guard the repository itself: who may import
// whom, what a program has to compile, and what every package brings.
package repo
