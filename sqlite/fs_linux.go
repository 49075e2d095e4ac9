package sqlite

import "syscall"

// networkFS names the network file system that holds the file, or is empty. The
// numbers are those of statfs(2).
func networkFS(file string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(file, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case 0x6969:
		return "NFS"
	case 0xff534d42, 0xfe534d42, 0x517b:
		return "SMB"
	case 0x00c36400:
		return "Ceph"
	case 0x5346414f:
		return "AFS"
	}
	return ""
}
