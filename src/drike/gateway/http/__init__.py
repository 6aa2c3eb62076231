"""HTTP: the sockets, the routes, who is admitted, and what passes between client and upstream."""
