"""The programs whose options fstune's own formats hold, by their names in search spaces."""

FILESERVER, KERNEL_CLIENT, FUSE_CLIENT = "dafileserver", "afsd", "afsd.fuse"
SYSCTL = "sysctl"
