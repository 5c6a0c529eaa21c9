"""Server monitoring with streamed hellos: one request, and a reply for each interval."""

import queue

from pymongo import MongoClient, monitoring

PATIENCE = 30


class Heartbeats(monitoring.ServerHeartbeatListener):
    def __init__(self):
        self.replies = queue.Queue()

    def started(self, event):
        pass

    def succeeded(self, event):
        self.replies.put(event)

    def failed(self, event):
        self.replies.put(event)


def test_driver_receives_streamed_hellos(server):
    heartbeats = Heartbeats()
    mode = {"serverMonitoringMode": "stream", "heartbeatFrequencyMS": 500}
    with MongoClient(server.uri, event_listeners=[heartbeats], **mode) as client:
        client.admin.command("ping")
        first = heartbeats.replies.get(timeout=PATIENCE)
        assert not first.awaited
        version = first.reply.topology_version
        assert version["counter"] == 0
        for _ in range(3):
            event = heartbeats.replies.get(timeout=PATIENCE)
            assert isinstance(event, monitoring.ServerHeartbeatSucceededEvent)
            assert event.awaited
            assert event.reply.topology_version == version
        client.admin.command("ping")


def test_shutdown_answers_waiting_hellos(stored_server):
    heartbeats = Heartbeats()
    # On exit the client tries to reach the server until its selection timeout.
    mode = {"serverMonitoringMode": "stream", "heartbeatFrequencyMS": 20_000, "serverSelectionTimeoutMS": 2000}
    with MongoClient(stored_server.uri, event_listeners=[heartbeats], **mode) as client:
        client.admin.command("ping")
        assert not heartbeats.replies.get(timeout=PATIENCE).awaited
        stored_server.stop()
        events = []
        while not events or not isinstance(events[-1], monitoring.ServerHeartbeatFailedEvent):
            events.append(heartbeats.replies.get(timeout=PATIENCE))
        # The hello is answered at the shutdown, long before its interval of 20 seconds ends.
        assert events[0].awaited
