// Package lab builds a topology from network namespaces and takes it down
// again.
//
// A lab is known by the kernel alone: every namespace of it is mounted under
// /run/netns with a name that tells lab and node, and carries the same on its
// loopback device. So a lab that lost its process is found and removed without
// any file of our own. The package changes nothing outside the namespaces that
// it created: not the caller's namespace, its sysctls nor its routes.
package lab
