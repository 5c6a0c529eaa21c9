//! A context of the JavaScript engine: its limits, its entry points, its errors.

use super::Limits;
use crate::error::{Error, Result};
use crate::json;
use parking_lot::Mutex;
use rquickjs::context::intrinsic;
use rquickjs::function::{IntoArgs, Opt};
use rquickjs::{CatchResultExt, CaughtError, Ctx, Function, Object, Runtime, Value};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The script that defines the functions for scripts and the entry points for the server.
const PRELUDE: &str = include_str!("prelude.js");

/// The name of the global that holds the entry points. Scripts can neither list, replace nor remove it.
const ENTRY_POINTS: &str = "\u{1}diwan";

/// The maximum length of a script's log message, and of log messages in one call.
const LOG_LENGTH: usize = 1000;
const LOG_MESSAGES: u32 = 100;

type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// The output of a running map function: keys and values as concatenated JSON.
#[derive(Default)]
pub(super) struct EmitBuffer {
    pub text: String,
    /// The end of each key and each value in `text`.
    pub ends: Vec<(usize, usize)>,
    /// Whether the output exceeds the limit.
    pub overflowed: bool,
}

impl EmitBuffer {
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.overflowed = false;
    }
}

/// Exchanges data between a list function and its caller: sends output, returns the next row.
pub(super) type RowExchange = Box<dyn FnMut(Option<String>, String) -> Option<String> + Send>;

/// State shared by a context and the native functions that scripts call.
pub(super) struct Shared {
    /// The deadline of the running call, on the clock of [`now`].
    deadline: AtomicU64,
    /// Whether the deadline interrupted a call.
    expired: AtomicBool,
    messages: AtomicU64,
    output: usize,
    pub emitted: Mutex<EmitBuffer>,
    pub rows: Mutex<Option<RowExchange>>,
}

/// A context with its limits.
pub(super) struct Context {
    context: rquickjs::Context,
    limits: Limits,
    pub shared: Arc<Shared>,
}

impl Context {
    /// A new context that contains only the prelude.
    pub fn new(limits: Limits) -> Result<Context> {
        let failed = |error: rquickjs::Error| Error::Exhausted(format!("no context for the script: {error}"));
        let runtime = Runtime::new().map_err(failed)?;
        runtime.set_memory_limit(limits.memory);
        runtime.set_max_stack_size(limits.stack);
        let shared = Arc::new(Shared {
            deadline: AtomicU64::new(u64::MAX),
            expired: AtomicBool::new(false),
            messages: AtomicU64::new(0),
            output: limits.output,
            emitted: Mutex::default(),
            rows: Mutex::default(),
        });
        let watched = shared.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let is_late = now() > watched.deadline.load(Ordering::Relaxed);
            if is_late {
                watched.expired.store(true, Ordering::Relaxed);
            }
            is_late
        })));
        let context = rquickjs::Context::custom::<Intrinsics>(&runtime).map_err(failed)?;
        let made = Context { context, limits, shared };
        made.with(|ctx| {
            let entry_points = prelude(&ctx, &made.shared)?;
            let globals = ctx.globals();
            let object: Object<'_> = globals.get("Object")?;
            let define: Function<'_> = object.get("defineProperty")?;
            let property = Object::new(ctx.clone())?;
            property.set("value", entry_points)?;
            define.call::<_, ()>((globals, ENTRY_POINTS, property))
        })?;
        Ok(made)
    }

    /// Runs `work` in the context, with the time limit of one call.
    pub fn with<T>(&self, work: impl FnOnce(Ctx<'_>) -> rquickjs::Result<T>) -> Result<T> {
        self.context.with(|ctx| {
            self.begin_call();
            let outcome = work(ctx.clone()).catch(&ctx);
            outcome.map_err(|caught| self.error_of(caught))
        })
    }

    /// Runs `work` in the context. The caller handles the time limit and errors.
    pub fn enter<T>(&self, work: impl FnOnce(&Ctx<'_>) -> Result<T>) -> Result<T> {
        self.context.with(|ctx| work(&ctx))
    }

    /// Starts the time limit of one call.
    pub fn begin_call(&self) {
        self.shared.expired.store(false, Ordering::Relaxed);
        self.shared.messages.store(0, Ordering::Relaxed);
        self.extend();
    }

    /// Restarts the time limit in the middle of a call, after it waited.
    pub fn extend(&self) {
        self.shared.extend(self.limits.time);
    }

    /// Calls an entry point with texts. Returns its result as JSON.
    pub fn invoke(&self, name: &str, args: &[&str]) -> Result<String> {
        let answer = self.with(|ctx| {
            let mut list = rquickjs::function::Args::new(ctx.clone(), args.len());
            for arg in args {
                list.push_arg(*arg)?;
            }
            entry_points(&ctx)?.get::<_, Function<'_>>(name)?.call_arg::<String>(list)
        })?;
        self.answer(answer)
    }

    /// Calls an entry point with arguments of any type. Returns its result as JSON.
    pub fn invoke_with<'js, A: IntoArgs<'js>>(&self, ctx: &Ctx<'js>, name: &str, args: A) -> Result<String> {
        self.begin_call();
        let call = || entry_points(ctx)?.get::<_, Function<'_>>(name)?.call::<A, String>(args);
        let answer = call().catch(ctx).map_err(|caught| self.error_of(caught))?;
        self.answer(answer)
    }

    /// Parses the result of an entry point.
    fn answer(&self, text: String) -> Result<String> {
        if text.len() > self.limits.output {
            return Err(self.too_much());
        }
        let mut parts = json::elements(&text);
        let kind = parts.next().unwrap_or_default();
        let part = parts.next().unwrap_or("null");
        let words = || json::unquote(part).into_owned();
        match kind {
            "\"ok\"" => Ok(part.to_owned()),
            "\"forbidden\"" => Err(Error::Forbidden(words())),
            "\"unauthorized\"" => Err(Error::Unauthorized(words())),
            "\"memory\"" => Err(self.out_of_memory()),
            "\"null\"" => Err(self.threw_null()),
            _ => {
                let reason = json::unquote(parts.next().unwrap_or_default()).into_owned();
                Err(match words().as_str() {
                    "compilation_error" => Error::Compilation(reason),
                    "not_found" => Error::NotFound(reason),
                    name => Error::Thrown { name: name.to_owned(), reason },
                })
            }
        }
    }

    /// The error of a call that failed in the engine.
    pub fn error_of(&self, caught: CaughtError<'_>) -> Error {
        if self.shared.expired.swap(false, Ordering::Relaxed) {
            return Error::Timeout(self.limits.time.as_secs().max(1));
        }
        match caught {
            CaughtError::Exception(exception) => {
                let reason = exception.message().unwrap_or_default();
                if reason == "out of memory" {
                    return self.out_of_memory();
                }
                let name: String = exception.get("name").unwrap_or_else(|_| "Error".to_owned());
                Error::Thrown { name, reason }
            }
            CaughtError::Value(value) if value.is_null() => self.threw_null(),
            CaughtError::Value(value) => {
                Error::Thrown { name: "unnamed_error".to_owned(), reason: format!("{value:?}") }
            }
            CaughtError::Error(error) => {
                Error::Thrown { name: "script_error".to_owned(), reason: error.to_string() }
            }
        }
    }

    /// The engine throws null if it has no memory for an exception, and a script may throw it, too.
    fn threw_null(&self) -> Error {
        let megabytes = self.limits.memory >> 20;
        Error::Exhausted(format!("The script threw null, or it needed more than {megabytes} MB of memory."))
    }

    pub fn out_of_memory(&self) -> Error {
        Error::Exhausted(format!("The script needed more than {} MB of memory.", self.limits.memory >> 20))
    }

    pub fn too_much(&self) -> Error {
        Error::Exhausted(format!("The script's output is larger than {} MB.", self.limits.output >> 20))
    }
}

impl Shared {
    pub fn extend(&self, time: Duration) {
        let end = now().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.deadline.store(end, Ordering::Relaxed);
    }

    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    fn log(&self, message: &str) {
        if self.messages.fetch_add(1, Ordering::Relaxed) < LOG_MESSAGES.into() {
            let end = message.char_indices().nth(LOG_LENGTH).map_or(message.len(), |(at, _)| at);
            tracing::info!(target: "diwan::script", "{}", &message[..end]);
        }
    }
}

/// The object with the entry points.
pub(super) fn entry_points<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    ctx.globals().get(ENTRY_POINTS)
}

/// Gives the closure's arguments one lifetime, which type inference does not find.
fn emitter<F: for<'js> Fn(Ctx<'js>, Opt<Value<'js>>, Opt<Value<'js>>) -> rquickjs::Result<()>>(work: F) -> F {
    work
}

fn prelude<'js>(ctx: &Ctx<'js>, shared: &Arc<Shared>) -> rquickjs::Result<Object<'js>> {
    let make: Function<'js> = ctx.eval(PRELUDE)?;
    let own = shared.clone();
    let emit = Function::new(
        ctx.clone(),
        emitter(move |ctx, key, value| {
            // This comes before the lock, because the script's own `toJSON` may call `emit`.
            let key = super::convert::to_json(&ctx, key.0)?;
            let value = super::convert::to_json(&ctx, value.0)?;
            let mut buffer = own.emitted.lock();
            let buffer = &mut *buffer;
            let before = buffer.text.len();
            key.append(&mut buffer.text);
            let key_end = buffer.text.len();
            value.append(&mut buffer.text);
            if buffer.text.len() > own.output {
                buffer.text.truncate(before);
                buffer.overflowed = true;
                return Err(rquickjs::Exception::throw_range(&ctx, "too much is emitted"));
            }
            buffer.ends.push((key_end, buffer.text.len()));
            Ok(())
        }),
    )?;
    let own = shared.clone();
    let log = Function::new(ctx.clone(), move |message: String| own.log(&message))?;
    let own = shared.clone();
    let row = Function::new(ctx.clone(), move |head: Option<String>, chunks: String| -> Option<String> {
        own.rows.lock().as_mut().and_then(|exchange| exchange(head, chunks))
    })?;
    make.call((emit, log, row))
}

/// Milliseconds since the first call of this function.
fn now() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    u64::try_from(EPOCH.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}
