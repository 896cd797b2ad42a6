"""The kind `file`: a watched folder; how recordings are read is in `monitor.recordings`."""
