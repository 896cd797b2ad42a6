"""The HTTP servers: uvicorn inside our loop, behind a door that bounds what clients may hold."""
