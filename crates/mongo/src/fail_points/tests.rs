use super::*;
use diwan_value::{Value, doc};

fn points(mode: Value<'_>, data: &DocBuf) -> FailPoints {
    let points = FailPoints::default();
    points.set(FAIL_COMMAND, mode, data.as_doc()).unwrap();
    points
}

fn strikes(points: &FailPoints, command: &str, times: usize) -> Vec<bool> {
    (0..times).map(|_| points.strike(command, Some("app"), "test.cars").is_some()).collect()
}

#[test]
fn modes_count_matching_commands_alone() {
    let data = doc! { "failCommands": ["insert"], "errorCode": 11602 };
    let twice = doc! { "times": 2 };
    let points = points(Value::Document(twice.as_doc()), &data);
    assert_eq!(strikes(&points, "find", 3), [false; 3]);
    assert_eq!(strikes(&points, "insert", 3), [true, true, false]);
    let later = doc! { "skip": 1 };
    assert_eq!(points.set(FAIL_COMMAND, Value::Document(later.as_doc()), data.as_doc()).unwrap(), 2);
    assert_eq!(strikes(&points, "insert", 3), [false, true, true]);
    points.set(FAIL_COMMAND, Value::String("off"), Doc::EMPTY).unwrap();
    assert_eq!(strikes(&points, "insert", 1), [false]);
}

#[test]
fn selection_is_by_command_application_and_namespace() {
    let data = doc! { "failCommands": ["ismaster", "find"], "appName": "app", "namespace": "test.cars" };
    let points = points(Value::String("alwaysOn"), &data);
    assert!(points.strike("isMaster", Some("app"), "test.cars").is_some());
    assert!(points.strike("find", Some("app"), "test.cars").is_some());
    assert!(points.strike("FIND", Some("app"), "test.cars").is_none());
    assert!(points.strike("find", None, "test.cars").is_none());
    assert!(points.strike("find", Some("app"), "test.bikes").is_none());
    let data = doc! { "failCommands": ["configureFailPoint"] };
    points.set(FAIL_COMMAND, Value::String("alwaysOn"), data.as_doc()).unwrap();
    assert!(points.strike("configureFailPoint", None, "").is_none());
}

#[test]
fn wrong_settings_change_nothing() {
    let data = doc! { "failCommands": ["find"], "errorCode": 6 };
    let points = points(Value::String("alwaysOn"), &data);
    let set = |mode, data: DocBuf| points.set(FAIL_COMMAND, mode, data.as_doc()).unwrap_err().code;
    let negative = doc! { "times": -1 };
    assert_eq!(set(Value::String("sometimes"), doc! {}), 2);
    assert_eq!(set(Value::Document(negative.as_doc()), doc! {}), 2);
    assert_eq!(set(Value::String("off"), doc! { "failCommands": "find" }), 14);
    assert_eq!(set(Value::String("off"), doc! { "blockTimeMS": 1_000_000 }), 14);
    assert_eq!(points.set("failFind", Value::String("off"), Doc::EMPTY).unwrap_err().code, SET_FAILED);
    assert_eq!(points.strike("find", None, "").unwrap().error().unwrap().code, 6);
}
