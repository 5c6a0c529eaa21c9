//! What all operations share: collation, variables, the clock, when to stop.

use crate::clock;
use crate::error::{Error, Result};
use crate::index::compile_collation;
use bumpalo::Bump;
use diwan_query::expr::{Context, EvalEnv, Expr, ParseEnv};
use diwan_query::external_sort::{DEFAULT_MEMORY_LIMIT, MemoryBudget};
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::{Interrupt, code};
use diwan_value::{Collation, Collator, Doc, Timestamp, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// The arguments that every operation takes.
#[derive(Clone, Default)]
pub struct Scope<'a> {
    /// The operation's collation; the collection's if absent.
    pub collation: Option<Doc<'a>>,
    /// The variables that expressions may name, each an expression without fields.
    pub variables: Option<Doc<'a>>,
    /// What `$$CLUSTER_TIME` says; `None` where there is no cluster.
    pub cluster_time: Option<Timestamp>,
    /// When to stop.
    pub interrupt: Interrupt,
    /// Where temporary files may be made; `None` if the client or the server forbids them.
    pub temporary: Option<PathBuf>,
}

/// A scope, ready for parsing and evaluation.
pub(crate) struct Ready {
    pub context: Arc<Context>,
    pub names: Vec<String>,
    pub interrupt: Interrupt,
    pub budget: MemoryBudget,
}

impl Scope<'_> {
    /// Compiles the scope; `default` is the collection's collation.
    pub(crate) fn ready(&self, default: Option<&Arc<Collator>>) -> Result<Ready> {
        let collator = match self.collation {
            None => default.cloned(),
            Some(collation) => {
                let parsed =
                    Collation::parse(collation).map_err(|error| Error::refused(error.code, error.message))?;
                compile_collation(parsed.as_ref())?
            }
        };
        let mut context = Context {
            now: clock::now_millis(),
            cluster_time: self.cluster_time,
            user_roles: None,
            variables: Vec::new(),
            collator,
            interrupt: self.interrupt.clone(),
        };
        let mut names = Vec::new();
        if let Some(variables) = self.variables {
            let mut values = Vec::new();
            let arena = Bump::new();
            for element in variables.iter() {
                let expr = Expr::parse(element.value(), &ParseEnv::new())?;
                let env = EvalEnv::new(&arena, Doc::EMPTY, &context);
                values.push(expr.eval(&env)?.map(Value::to_owned));
                names.push(element.key_str().to_owned());
            }
            context.variables = values;
        }
        let budget = MemoryBudget { limit: DEFAULT_MEMORY_LIMIT, directory: self.temporary.clone() };
        Ok(Ready { context: Arc::new(context), names, interrupt: self.interrupt.clone(), budget })
    }
}

impl Ready {
    pub fn parse_env(&self) -> ParseEnv<'static> {
        ParseEnv::with_let(self.names.iter().map(String::as_str)).with_collator(self.context.collator.clone())
    }

    pub fn filter(&self, filter: Doc<'_>) -> Result<Arc<Filter>> {
        let scope = self.parse_env();
        let env = FilterEnv { context: self.context.clone(), scope: Some(&scope) };
        Ok(Arc::new(Filter::parse(filter, &env)?))
    }

    pub fn collator(&self) -> Option<Arc<Collator>> {
        self.context.collator.clone()
    }
}

/// Refuses an operation that a view cannot answer.
pub(crate) fn not_on_view(namespace: &crate::Namespace) -> Error {
    Error::refused(
        code::COMMAND_NOT_SUPPORTED_ON_VIEW,
        format!("Namespace {namespace} is a view, not a collection"),
    )
}
