// Defines the content of a new context: the functions that scripts call, and the entry points that the server calls.
// The value of this script is the object with the entry points, which scripts cannot access.
(function (nativeEmit, nativeLog, nativeRow) {
  "use strict";
  const { parse, stringify } = JSON;
  const isArray = Array.isArray;
  const push = Array.prototype.push;
  const isOwn = Object.prototype.hasOwnProperty;
  const globalEval = globalThis.eval;

  // The engine's own loops over array-like objects cannot be interrupted, so they must be short.
  const LONGEST = 10000000;
  for (const name of ["at", "concat", "copyWithin", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex",
    "flat", "flatMap", "forEach", "includes", "indexOf", "join", "lastIndexOf", "map", "pop", "push", "reduce", "reduceRight",
    "reverse", "shift", "slice", "some", "sort", "splice", "toReversed", "toSorted", "toSpliced", "toString",
    "toLocaleString", "unshift", "with"]) {
    const native = Array.prototype[name];
    if (!native) continue;
    Object.defineProperty(Array.prototype, name, {
      configurable: true, writable: true, enumerable: false,
      value: { [name](...args) {
        if (this !== null && this !== undefined && this.length > LONGEST) throw new RangeError("array too long");
        return native.apply(this, args);
      } }[name],
    });
  }
  for (const name of ["from", "fromAsync"]) {
    const native = Array[name];
    if (!native) continue;
    Object.defineProperty(Array, name, {
      configurable: true, writable: true, enumerable: false,
      value: { [name](source, ...args) {
        if (source !== null && source !== undefined && source.length > LONGEST) throw new RangeError("array too long");
        return native.call(this, source, ...args);
      } }[name],
    });
  }
  delete globalThis.Atomics;
  delete globalThis.SharedArrayBuffer;

  const define = (name, value) =>
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });

  define("isArray", value => isArray(value));
  define("toJSON", value => stringify(value));
  define("sum", values => {
    let total = 0;
    for (const index in values) total += values[index];
    return total;
  });
  define("log", message => {
    let text;
    try { text = typeof message === "string" ? message : stringify(message); } catch { text = undefined; }
    nativeLog((text === undefined ? String(message) : text).toWellFormed());
  });
  define("emit", nativeEmit);

  // An error in the server's form: a list whose first element determines the kind of response.
  function describe(error) {
    // The engine throws null if it has no memory for an exception.
    if (error === null) return ["null"];
    if (error === undefined) return ["error", "unnamed_error", String(error)];
    if (isArray(error)) {
      const [kind, name, reason] = error;
      if (kind === "error" || kind === "fatal") return [kind, String(name), text(reason)];
      return ["error", "unnamed_error", text(error)];
    }
    if (typeof error !== "object" && typeof error !== "function") return ["error", "unnamed_error", String(error)];
    if (error instanceof Error) {
      if (error.name === "InternalError" && error.message === "out of memory") return ["memory"];
      return ["error", String(error.name), String(error.message)];
    }
    if (isOwn.call(error, "forbidden")) return ["forbidden", text(error.forbidden)];
    if (isOwn.call(error, "unauthorized")) return ["unauthorized", text(error.unauthorized)];
    if (error.error && error.reason) return ["error", String(error.error), text(error.reason)];
    if (error.name) return ["error", String(error.name), text(error)];
    return ["error", "unnamed_error", text(error)];
  }

  function text(value) {
    if (typeof value === "string") return value;
    const json = stringify(value);
    return json === undefined ? String(value) : json;
  }

  const fail = (name, reason) => { throw ["error", name, reason]; };

  // The compiler

  function compile(source, require) {
    if (typeof source !== "string" || source === "") fail("not_found", "missing function");
    let made;
    try {
      // In parentheses, an anonymous function is an expression. Other sources may still be valid in an assignment.
      try {
        made = globalEval("(" + source.replace(/[;\s]+$/, "") + "\n)");
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        let other;
        try { other = globalEval("(function () { var made = " + source + "\n; return made; })"); } catch { throw error; }
        made = other();
      }
    } catch (error) {
      if (error instanceof Error) fail("compilation_error", error.name + ": " + error.message + " (" + source + ")");
      throw error;
    }
    if (typeof made !== "function") fail("compilation_error", "Expression does not eval to a function. (" + source + ")");
    return made;
  }

  // Modules: a path leads from the root, or from the requiring module, through members to a string of source code.

  function resolve(steps, from, root) {
    const isRelative = step => step === "." || step === "..";
    // The paths in a module are relative to the object that contains it.
    let place = isRelative(steps[0]) ? from && from.parent : { value: root, parent: null, id: "" };
    for (const step of steps) {
      if (isRelative(step)) {
        const next = place && (step === "." ? place : place.parent);
        if (!next) fail("invalid_require_path", "Object has no parent " + stringify(place ? place.value : null));
        place = next;
        continue;
      }
      const value = place.value;
      if (value === null || typeof value !== "object" || !isOwn.call(value, step)) {
        fail("invalid_require_path", "Object has no property \"" + step + "\". " + text(value === undefined ? null : value));
      }
      place = { value: value[step], parent: place, id: place.id ? place.id + "/" + step : step };
    }
    if (typeof place.value !== "string") {
      fail("invalid_require_path", "Must require a JavaScript string, not: " + typeof place.value);
    }
    return place;
  }

  function requirer(root) {
    const loaded = new Map();
    const requireFrom = place => name => {
      const found = resolve(String(name).split("/"), place, root);
      const known = loaded.get(found.id);
      if (known) return known.exports;
      const module = { id: found.id, current: found.value, parent: found.parent, exports: {} };
      loaded.set(found.id, module);
      try {
        const body = globalEval("(function (module, exports, require) { " + found.value + "\n})");
        body.call(globalThis, module, module.exports, requireFrom(found));
      } catch (error) {
        loaded.delete(found.id);
        const [, reason, detail] = describe(error);
        fail("compilation_error", "Module require('" + name + "') raised error " + reason + (detail ? ": " + detail : ""));
      }
      return module.exports;
    };
    return requireFrom(null);
  }

  // Response types

  const typesOfName = new Map();
  const nameOfType = new Map();
  function registerType(name, ...types) {
    typesOfName.set(name, types);
    for (const type of types) nameOfType.set(type, name);
  }
  define("registerType", registerType);
  registerType("all", "*/*");
  registerType("text", "text/plain; charset=utf-8", "txt");
  registerType("html", "text/html; charset=utf-8");
  registerType("xhtml", "application/xhtml+xml", "xhtml");
  registerType("xml", "application/xml", "text/xml", "application/x-xml");
  registerType("js", "text/javascript", "application/javascript", "application/x-javascript");
  registerType("css", "text/css");
  registerType("ics", "text/calendar");
  registerType("csv", "text/csv");
  registerType("rss", "application/rss+xml");
  registerType("atom", "application/atom+xml");
  registerType("yaml", "application/x-yaml", "text/yaml");
  registerType("multipart_form", "multipart/form-data");
  registerType("url_encoded_form", "application/x-www-form-urlencoded");
  registerType("json", "application/json", "text/x-json");

  let provided = [];
  let providesUsed = false;
  let responseType = null;
  define("provides", (name, make) => {
    providesUsed = true;
    provided.push([name, make]);
  });

  function mediaType(range) {
    const [full, ...parameters] = range.split(";");
    const [type, subtype] = (full.trim() === "*" ? "*/*" : full.trim()).split("/");
    const values = new Map();
    for (const parameter of parameters) {
      const [name, value] = parameter.split("=");
      if (value !== undefined) values.set(name.trim(), value.trim());
    }
    const given = values.has("q") ? parseFloat(values.get("q")) : 1;
    values.delete("q");
    return { type, subtype, values, quality: given >= 0 && given <= 1 ? given : 1 };
  }

  // Which type matches the `Accept` header best: the most specific one, then the one with the greatest quality, then
  // the last.
  function bestType(types, accept) {
    const ranges = accept.split(",").map(mediaType);
    let best = "", bestFitness = -1, bestQuality = 0;
    for (const name of types) {
      const wanted = mediaType(name);
      let fitness = -1, quality = 0;
      for (const range of ranges) {
        const fits = (a, b) => a === b || a === "*" || b === "*";
        if (!fits(range.type, wanted.type) || !fits(range.subtype, wanted.subtype)) continue;
        let score = (range.type === wanted.type ? 100 : 0) + (range.subtype === wanted.subtype ? 10 : 0);
        for (const [key, value] of wanted.values) if (range.values.get(key) === value) score += 1;
        if (score > fitness) { fitness = score; quality = range.quality; }
      }
      if (quality > 0 && (fitness > bestFitness || (fitness === bestFitness && quality >= bestQuality))) {
        best = name; bestFitness = fitness; bestQuality = quality;
      }
    }
    return best;
  }

  function runProvided(request, design) {
    const accept = request && request.headers && (request.headers.Accept || request.headers.accept);
    let name;
    if (request && request.query && request.query.format) {
      name = request.query.format;
      responseType = (typesOfName.get(name) || [null])[0];
    } else if (accept) {
      const types = [];
      for (const [key] of [...provided].reverse()) push.apply(types, typesOfName.get(key) || []);
      responseType = bestType(types, accept);
      name = nameOfType.get(responseType);
    } else {
      name = provided[0][0];
      responseType = (typesOfName.get(name) || [null])[0];
    }
    const found = provided.find(([key]) => key === name);
    if (!found) {
      const known = provided.map(([key]) => (typesOfName.get(key) || [key]).join(", ") || key);
      fail("not_acceptable", "Content-Type " + (accept || name) + " not supported, try one of: " + known.join(", "));
    }
    return found[1].call(design);
  }

  // Shows, lists and updates

  let chunks = [];
  let startOf = {};
  let headTold = false;
  let rowsEnded = false;
  let listing = false;

  function reset() {
    provided = [];
    providesUsed = false;
    responseType = null;
    chunks = [];
    startOf = {};
    headTold = rowsEnded = listing = false;
  }

  define("start", response => { startOf = response || {}; });
  define("send", chunk => { chunks.push(String(chunk)); });
  define("getRow", () => {
    if (!listing || rowsEnded) return null;
    // The head is sent with the first output; until then the function may change it.
    const words = chunks.join("").toWellFormed();
    let head = null;
    if (!headTold && words !== "") {
      head = stringify(withType(startOf));
      headTold = true;
    }
    const row = nativeRow(head, words);
    chunks = [];
    if (row === undefined || row === null) {
      rowsEnded = true;
      return null;
    }
    return parse(row);
  });

  function withType(response) {
    response.headers = response.headers || {};
    if (responseType && !response.headers["Content-Type"]) response.headers["Content-Type"] = responseType;
    return response;
  }

  const wrap = response => (typeof response === "string" ? { body: response } : response);
  const isResponse = response => response !== null && typeof response === "object" && !isArray(response);

  // An error in a rendering function. Errors that the function threw deliberately are passed on unchanged.
  function renderError(error) {
    if (error && ((error.error && error.reason) || error[0] === "error" || error[0] === "fatal"
        || isOwn.call(Object(error), "forbidden") || isOwn.call(Object(error), "unauthorized"))) throw error;
    if (error === null || describe(error)[0] === "memory") throw error;
    const stack = error && error.stack ? " \nstacktrace: " + error.stack : "";
    fail("render_error", "function raised error: " + (error instanceof Error ? String(error) : text(error)) + stack);
  }

  function show(call, design, args) {
    reset();
    try {
      let response = wrap(call.apply(design, args) || {});
      if (chunks.length) {
        response.headers = response.headers || {};
        // In shows, `start` takes the headers directly, but a head as in lists is also accepted.
        const { code, headers, ...begun } = Object(startOf);
        Object.assign(response.headers, begun, headers);
        if (code && !response.code) response.code = code;
        response.body = chunks.join("") + (response.body || "");
        chunks = [];
      }
      if (providesUsed) {
        const made = wrap(runProvided(args[1], design) || {});
        response.body = (response.body || "") + chunks.join("") + (made.body || "");
        if (made.headers) response.headers = { ...made.headers, ...response.headers };
        if (made.code && !response.code) response.code = made.code;
        response = withType(response);
      }
      if (!isResponse(response)) fail("render_error", "undefined response from show function");
      return response;
    } catch (error) {
      const path = args[1] && args[1].path;
      if (args[0] === null && isArray(path) && path.length > 5) fail("not_found", "document not found");
      renderError(error);
    } finally {
      reset();
    }
  }

  function update(call, design, args) {
    try {
      if (args[1] && args[1].method === "GET") fail("method_not_allowed", "Update functions do not allow GET");
      const result = call.apply(design, args);
      const doc = result[0], response = wrap(result[1]);
      if (!isResponse(response)) fail("render_error", "undefined response from update function");
      return [doc === undefined ? null : doc, response];
    } catch (error) {
      renderError(error);
    }
  }

  function list(call, design, args) {
    reset();
    listing = true;
    try {
      let tail = call.apply(design, args);
      if (providesUsed) tail = runProvided(args[1], design);
      const head = headTold ? null : withType(startOf);
      if (tail !== undefined) chunks.push(String(tail));
      return [head, chunks.join("")];
    } catch (error) {
      renderError(error);
    } finally {
      reset();
    }
  }

  // Validations and filters

  function validate(call, design, args) {
    try {
      call.apply(design, args);
    } catch (error) {
      // As in CouchDB, the reason is the only member of an object, or the text itself.
      if (typeof error === "string") fail("unknown_error", error);
      if (error === null || typeof error !== "object" || isArray(error) || error instanceof Error) throw error;
      const names = Object.keys(error);
      if (names.length !== 1 || names[0] === "forbidden" || names[0] === "unauthorized") throw error;
      fail("unknown_error", text(error[names[0]]));
    }
    return 1;
  }

  function filter(call, design, [docs, request]) {
    return docs.map(doc => Boolean(call.apply(design, [doc, request])));
  }

  function filterByView(call, design, [docs]) {
    let emitted = false;
    const before = globalThis.emit;
    globalThis.emit = () => { emitted = true; };
    try {
      return docs.map(doc => {
        emitted = false;
        call.apply(design, [doc]);
        return emitted;
      });
    } finally {
      globalThis.emit = before;
    }
  }

  const rewrite = (call, design, args) => {
    const result = call.apply(design, args);
    return result === undefined ? null : result;
  };

  const runners = { shows: show, updates: update, lists: list, validate_doc_update: validate, filters: filter,
    views: filterByView, rewrites: rewrite };

  // Faults, for people who write functions

  // The message of an error, and the line and column of the script where it arose; 0 if they are unknown.
  function fault(error) {
    const described = describe(error);
    const message = described[0] === "error" && error instanceof Error
      ? described[1] + ": " + described[2] : described.slice(1).join(": ");
    const stack = error instanceof Error ? String(error.stack) : "";
    const [, line, column] = /<input>:(\d+)(?::(\d+))?/.exec(stack) || [];
    // The compiler puts a parenthesis before the source.
    return [message, Number(line || 0), Math.max(0, Number(column || 0) - (line === "1" ? 1 : 0))];
  }

  // The fault of a function that does not compile, or null.
  function compilationFault(source) {
    try {
      compile(source);
      return null;
    } catch (error) {
      try { globalEval("(" + source + "\n)"); } catch (cause) { return fault(cause); }
      return ["The source is not a function.", 0, 0];
    }
  }

  // The entry points

  let design = {};
  let compiled = new Map();
  const maps = [];
  const reduces = [];

  function functionAt(path) {
    const key = stringify(path);
    let made = compiled.get(key);
    if (!made) {
      let place = design;
      for (const step of path) {
        place = place !== null && typeof place === "object" && isOwn.call(place, step) ? place[step] : undefined;
      }
      if (place === undefined || place === null || place === "") {
        const last = path[0] === "views" ? path[1] : path[path.length - 1];
        fail("not_found", "missing " + path[0] + " function " + last + " on design doc " + design._id);
      }
      made = compile(place);
      compiled.set(key, made);
    }
    return made;
  }

  // Every call from the server returns text: `["ok", result]`, or a described error.
  const guarded = work => (...args) => {
    try {
      return stringify(["ok", work(...args)]);
    } catch (error) {
      return stringify(describe(error));
    }
  };

  return {
    maps,
    describe: error => stringify(describe(error)),
    fault: guarded(fault),
    compilationFault: guarded(compilationFault),
    load: guarded(source => {
      design = parse(source);
      compiled = new Map();
      globalThis.require = requirer(design);
      return true;
    }),
    call: guarded((path, args) => {
      const steps = parse(path);
      return runners[steps[0]](functionAt(steps), design, parse(args));
    }),
    check: guarded(source => { compile(source); return true; }),
    library: guarded(modules => {
      globalThis.require = requirer({ views: { lib: parse(modules) } });
      return true;
    }),
    addMap: guarded(source => { maps.push(compile(source)); return true; }),
    addReduce: guarded(source => { reduces.push(compile(source)); return true; }),
    reduce: guarded((index, keys, values, again) => {
      const result = reduces[index](again ? null : parse(keys), parse(values), again);
      return result === undefined ? null : result;
    }),
  };
})
