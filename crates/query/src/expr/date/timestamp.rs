//! `$tsSecond` and `$tsIncrement`.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, type_name};
use crate::expr::{Args, EvalEnv};
use diwan_value::{Timestamp, Value};

fn part<'a>(args: Args<'a>, env: &EvalEnv<'a>, code: i32, part: fn(Timestamp) -> u32) -> Evaluated<'a> {
    let value: Result<Value<'a>> = match args.eval(0, env)? {
        Some(Value::Timestamp(time)) => Ok(Value::Int64(part(time).into())),
        value if is_nullish(value) => Ok(Value::Null),
        other => {
            let (operator, found) = (args.operator, type_name(other));
            Err(Error::new(code, format!(" Argument to {operator} must be a timestamp, but is {found}")))
        }
    };
    value.map(Some)
}

pub(in crate::expr) fn ts_second<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    part(args, env, 5687301, |time| time.seconds)
}

pub(in crate::expr) fn ts_increment<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    part(args, env, 5687302, |time| time.increment)
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::check;
    use diwan_value::{Timestamp, Value, doc};

    #[test]
    fn operators_read_the_parts_of_timestamps() {
        let time = Value::Timestamp(Timestamp { seconds: 7, increment: u32::MAX });
        check(doc! { "$tsSecond": time }, Value::Int64(7));
        check(doc! { "$tsIncrement": time }, Value::Int64(u32::MAX.into()));
        check(doc! { "$tsSecond": null }, Value::Null);
        check(doc! { "$tsSecond": 1 }, 5687301);
        check(doc! { "$tsIncrement": 1 }, 5687302);
    }
}
