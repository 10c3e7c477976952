"""Jobs of aggregation and of collection: who leases them, what was answered, what they added."""
