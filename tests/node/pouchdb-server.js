// An in-memory PouchDB server as a peer for replication. Prints its port.

import { createServer } from "node:http";
import expressPouchDB from "express-pouchdb";
import PouchDB from "pouchdb-core";
import find from "pouchdb-find";
import mapreduce from "pouchdb-mapreduce";
import memory from "pouchdb-adapter-memory";
import replication from "pouchdb-replication";

PouchDB.plugin(memory).plugin(replication).plugin(mapreduce).plugin(find);

const options = { mode: "minimumForPouchDB", inMemoryConfig: true, logPath: process.argv[2] };
const server = createServer(expressPouchDB(PouchDB.defaults({ adapter: "memory" }), options));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
