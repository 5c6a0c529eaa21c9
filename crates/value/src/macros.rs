//! `doc!` and `array!`: documents as literals, for replies and tests.

/// Builds a [`DocBuf`](crate::DocBuf) from a literal: `doc! { "ok": 1.0, "cursor": { "id": 0i64 }, "list": [1, 2] }`.
/// Values are nested literals, `null`, or expressions of any type that implements [`Append`](crate::Append).
#[macro_export]
macro_rules! doc {
    () => { $crate::DocBuf::new() };
    ($($body:tt)+) => {{
        let mut builder = $crate::DocBuilder::new();
        $crate::doc_fields!(builder; $($body)+);
        builder.finish()
    }};
}

/// Builds an array's [`ArrayBuilder`](crate::ArrayBuilder) from a literal: `array![1, "two", { "three": 3 }]`.
#[macro_export]
macro_rules! array {
    ($($body:tt)*) => {{
        #[allow(unused_mut)]
        let mut builder = $crate::ArrayBuilder::new();
        $crate::array_items!(builder; $($body)*);
        builder
    }};
}

/// Appends the fields of a `doc!`, one at a time.
#[doc(hidden)]
#[macro_export]
macro_rules! doc_fields {
    ($b:ident;) => {};
    ($b:ident; $key:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $b.append($key, $crate::doc! { $($inner)* });
        $($crate::doc_fields!($b; $($rest)*);)?
    };
    ($b:ident; $key:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $b.append($key, $crate::array![ $($inner)* ]);
        $($crate::doc_fields!($b; $($rest)*);)?
    };
    ($b:ident; $key:tt : null $(, $($rest:tt)*)?) => {
        $b.append($key, $crate::Value::Null);
        $($crate::doc_fields!($b; $($rest)*);)?
    };
    ($b:ident; $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $b.append($key, $value);
        $($crate::doc_fields!($b; $($rest)*);)?
    };
}

/// Appends the values of an `array!`, one at a time.
#[doc(hidden)]
#[macro_export]
macro_rules! array_items {
    ($b:ident;) => {};
    ($b:ident; { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $b.push($crate::doc! { $($inner)* });
        $($crate::array_items!($b; $($rest)*);)?
    };
    ($b:ident; [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $b.push($crate::array![ $($inner)* ]);
        $($crate::array_items!($b; $($rest)*);)?
    };
    ($b:ident; null $(, $($rest:tt)*)?) => {
        $b.push($crate::Value::Null);
        $($crate::array_items!($b; $($rest)*);)?
    };
    ($b:ident; $value:expr $(, $($rest:tt)*)?) => {
        $b.push($value);
        $($crate::array_items!($b; $($rest)*);)?
    };
}
