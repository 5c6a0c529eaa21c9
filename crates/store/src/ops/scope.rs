//! The arguments that all operations have: collation, variables, the clock, the interrupt.

use crate::clock;
use crate::collection::DesignGuard;
use crate::error::{Error, Result};
use crate::index::compile_collation;
use bumpalo::Bump;
use diwan_query::expr::{Context, EvalEnv, Expr, ParseEnv};
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::{Interrupt, MemoryBudget, code};
use diwan_value::{Collation, Collator, Doc, Timestamp, Value, ValueBuf};
use std::path::PathBuf;
use std::sync::Arc;

/// The arguments that every operation has.
#[derive(Clone, Default)]
pub struct Scope<'a> {
    /// The operation's collation; if `None`, the collection's applies.
    pub collation: Option<Doc<'a>>,
    /// The values of variables for expressions. Each is a constant expression.
    pub variables: Option<Doc<'a>>,
    /// The value of `$$CLUSTER_TIME`; `None` outside a replica set.
    pub cluster_time: Option<Timestamp>,
    /// The value of `$$USER_ROLES`: an array with the roles of the user; `None` on a server without users.
    pub user_roles: Option<Arc<ValueBuf>>,
    /// Decides whether the operation may change design documents.
    pub designs: Option<DesignGuard>,
    /// Ends the operation when it is killed or times out.
    pub interrupt: Interrupt,
    /// The directory for temporary files; `None` if the client or the server forbids them.
    pub temporary: Option<PathBuf>,
}

/// A compiled scope, for parsing and evaluation.
pub(crate) struct Ready {
    pub context: Arc<Context>,
    pub names: Vec<String>,
    pub interrupt: Interrupt,
    pub budget: MemoryBudget,
    pub designs: Option<DesignGuard>,
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
            user_roles: self.user_roles.clone(),
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
        let budget = MemoryBudget::in_directory(self.temporary.clone());
        let (interrupt, designs) = (self.interrupt.clone(), self.designs.clone());
        Ok(Ready { context: Arc::new(context), names, interrupt, budget, designs })
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
