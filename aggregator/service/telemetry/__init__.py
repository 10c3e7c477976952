"""What a running process shows its operators: logs, metrics, traces and health."""
