"""Where alerts are sent, a file per kind of channel; when and how often is in `stages.alert`."""
