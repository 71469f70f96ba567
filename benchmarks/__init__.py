"""What the runtime costs, beside what the same bytes cost without it: ``python -m benchmarks`` (or ``make bench``)."""
