"""Continuous production monitoring for deployed RAG chat apps. Start reading at `monitor/model`."""
