"""HTTP as the tests speak it: a session, and paths below the server or below a database."""

import requests

SECONDS = 60


class Http:
    """Requests below one URL."""

    def __init__(self, url: str, session: requests.Session | None = None):
        self.url = url.rstrip("/")
        self.session = session or requests.Session()

    def request(self, method: str, path: str = "", **arguments) -> requests.Response:
        url = f"{self.url}/{path}" if path else self.url
        return self.session.request(method, url, timeout=arguments.pop("timeout", SECONDS), **arguments)

    def get(self, path: str = "", **arguments) -> requests.Response:
        return self.request("GET", path, **arguments)

    def put(self, path: str = "", **arguments) -> requests.Response:
        return self.request("PUT", path, **arguments)

    def post(self, path: str = "", **arguments) -> requests.Response:
        return self.request("POST", path, **arguments)

    def delete(self, path: str = "", **arguments) -> requests.Response:
        return self.request("DELETE", path, **arguments)

    def database(self, name: str) -> "Http":
        return Http(f"{self.url}/{requests.utils.quote(name, safe='')}", self.session)
