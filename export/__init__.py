"""Winners as Python modules that drop in for the task's own, and as ops of torch."""
