# A device that can do little: no managed memory, no registered memory (some virtual GPUs).
attribute.managed_memory = 0
attribute.concurrent_managed_access = 0
attribute.host_register_supported = 0
attribute.read_only_host_register_supported = 0
