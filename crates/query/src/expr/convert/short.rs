//! The short forms of `$convert`, with one argument and the target type in the name.

use super::binary::{ByteOrder, Format};
use super::target::Target;
use super::{Options, convert_to};
use crate::expr::coerce::Evaluated;
use crate::expr::{Args, EvalEnv};
use diwan_value::{Type, Value};

/// `$toBool`.
pub fn to_bool<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::Boolean), None, args, env)
}

/// `$toDate`.
pub fn to_date<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::DateTime), None, args, env)
}

/// `$toDecimal`.
pub fn to_decimal<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::Decimal128), None, args, env)
}

/// `$toDouble`.
pub fn to_double<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::Double), None, args, env)
}

/// `$toInt`.
pub fn to_int<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::Int32), None, args, env)
}

/// `$toLong`.
pub fn to_long<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::Int64), None, args, env)
}

/// `$toObjectId`.
pub fn to_object_id<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::ObjectId), None, args, env)
}

/// `$toString`.
pub fn to_string<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::of_type(Type::String), Some(Format::Auto), args, env)
}

/// `$toUUID`.
pub fn to_uuid<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    short(Target::UUID, Some(Format::Uuid), args, env)
}

/// Converts the argument. Null stays null.
fn short<'a>(target: Target<'a>, format: Option<Format>, args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some(input) = args.eval(0, env)?.filter(|input| !input.is_nullish()) else {
        return Ok(Some(Value::Null));
    };
    let options = Options { format, byte_order: ByteOrder::Little };
    convert_to(target, input, options, env).map(Some)
}
