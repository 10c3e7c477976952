"""What people look at: the collector's results as pages, charts, JSON, CSV and Parquet."""
