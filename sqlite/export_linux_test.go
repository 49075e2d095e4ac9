package sqlite

import "syscall"

// TakeForNetwork makes the file system of a file one that a network lies in.
func TakeForNetwork(file, name string) (restore func(), err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(file, &st); err != nil {
		return nil, err
	}
	kind := uint32(st.Type)
	old, was := networks[kind]
	networks[kind] = name
	return func() {
		delete(networks, kind)
		if was {
			networks[kind] = old
		}
	}, nil
}
