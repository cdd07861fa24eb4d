# A device whose frees wait for nothing, which the driver's words allow.
free_waits = 0
