// The first lines of a program for each driver and client.

import { httpUri, mongoUri, type Status } from '../../api/status.ts';

export interface Program {
  readonly name: string;
  /** The client library, and how to get it. */
  readonly install: string;
  readonly code: string;
}

/** Programs that write a document and read it. `user` is the name to sign in with, if there are users. */
export function programs(status: Status, user: string | null): Program[] {
  const mongodb = mongoUri(status, user);
  const http = httpUri(user);
  return [
    { name: 'mongosh', install: 'MongoDB Shell', code: `mongosh "${mongodb}"\n\ndb.cars.insertOne({ maker: "Citroën", year: 1948 })\ndb.cars.find({ year: { $lt: 1970 } })` },
    {
      name: 'Python',
      install: 'pip install pymongo',
      code: `from pymongo import MongoClient\n\ncars = MongoClient("${mongodb}").test.cars\ncars.insert_one({"maker": "Citroën", "year": 1948})\nfor car in cars.find({"year": {"$lt": 1970}}):\n    print(car)`,
    },
    {
      name: 'Node.js',
      install: 'npm install mongodb',
      code: `import { MongoClient } from "mongodb";\n\nconst client = new MongoClient("${mongodb}");\nconst cars = client.db("test").collection("cars");\nawait cars.insertOne({ maker: "Citroën", year: 1948 });\nconsole.log(await cars.find({ year: { $lt: 1970 } }).toArray());\nawait client.close();`,
    },
    {
      name: 'Mongoose',
      install: 'npm install mongoose',
      code: `import mongoose from "mongoose";\n\nawait mongoose.connect("${mongodb}", { dbName: "test" });\nconst Car = mongoose.model("Car", new mongoose.Schema({ maker: String, year: Number }));\nawait Car.create({ maker: "Citroën", year: 1948 });\nconsole.log(await Car.find({ year: { $lt: 1970 } }));\nawait mongoose.disconnect();`,
    },
    {
      name: 'PouchDB',
      install: 'npm install pouchdb',
      code: `import PouchDB from "pouchdb";\n\nconst cars = new PouchDB("cars");\nawait cars.post({ maker: "Citroën", year: 1948 });\nawait cars.sync("${http}/cars");`,
    },
    {
      name: 'nano',
      install: 'npm install nano',
      code: `import Nano from "nano";\n\nconst nano = Nano("${http}");\nawait nano.db.create("cars");\nconst cars = nano.use("cars");\nawait cars.insert({ maker: "Citroën", year: 1948 });\nconsole.log(await cars.find({ selector: { year: { $lt: 1970 } } }));`,
    },
    {
      name: 'couchdb-python',
      install: 'pip install couchdb',
      code: `import couchdb\n\ncars = couchdb.Server("${http}/").create("cars")\ncars.save({"maker": "Citroën", "year": 1948})\nfor row in cars.view("_all_docs", include_docs=True):\n    print(row.doc)`,
    },
    {
      name: 'curl',
      install: 'curl',
      code: `curl -X PUT "${http}/cars"\ncurl "${http}/cars" -H 'content-type: application/json' -d '{"maker": "Citroën", "year": 1948}'\ncurl "${http}/cars/_all_docs?include_docs=true"`,
    },
  ];
}
