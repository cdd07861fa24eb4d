# Two devices that reach pageable memory (Linux with heterogeneous memory management), and that
# register no memory read-only.
devices = 2
attribute.pageable_memory_access = 1
attribute.read_only_host_register_supported = 0
