"""The exporters for apps in Python, which run in the app and not in the monitor."""
