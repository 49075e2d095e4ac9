package sqlite

import "syscall"

// networks names the file systems that a network lies in. The numbers are those of
// statfs(2).
var networks = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "SMB",
	0xfe534d42: "SMB",
	0x517b:     "SMB",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
}

// networkFS names the network file system that holds the file, or is empty.
func networkFS(file string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(file, &st) != nil {
		return ""
	}
	return networks[uint32(st.Type)]
}
