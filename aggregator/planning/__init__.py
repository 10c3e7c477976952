"""Planning and auditing: what no service reaches."""
