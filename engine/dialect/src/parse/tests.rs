//! Precedence, mistakes and limits of the parser.

use super::*;

/// The tree with every operation in parentheses.
fn shape(text: &str) -> String {
    fn show(expr: &Expr, text: &str) -> String {
        match &expr.kind {
            ExprKind::Binary(op, left, right) => {
                let symbol = match op {
                    BinaryOp::Arithmetic(op) => op.symbol(),
                    BinaryOp::Compare(op) => op.symbol(),
                    BinaryOp::And => "&&",
                    BinaryOp::Or => "||",
                    BinaryOp::Coalesce => "??",
                };
                format!("({} {symbol} {})", show(left, text), show(right, text))
            }
            ExprKind::Unary(UnaryOp::Not, inner) => format!("(!{})", show(inner, text)),
            ExprKind::Unary(UnaryOp::Negate, inner) => format!("(-{})", show(inner, text)),
            ExprKind::If(a, b, c) => format!("({} ? {} : {})", show(a, text), show(b, text), show(c, text)),
            ExprKind::In(value, items) => format!("({} in {})", show(value, text), items.len()),
            ExprKind::InList(value, list) => format!("({} in {})", show(value, text), show(list, text)),
            ExprKind::InRange(value, low, high) => format!("({} in {}..{})", show(value, text), show(low, text), show(high, text)),
            ExprKind::Member(value, Access::Plain, name) => format!("({}.{name})", show(value, text)),
            ExprKind::Member(value, Access::NullSafe, name) => format!("({}?.{name})", show(value, text)),
            ExprKind::List(items) => format!("[{}]", items.iter().map(|item| show(item, text)).collect::<Vec<_>>().join(" ")),
            ExprKind::Object(members) => {
                let members = members.iter().map(|(name, value)| format!("{name}:{}", show(value, text)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(" "))
            }
            ExprKind::Lambda(names, body) => format!("({} -> {})", names.join(" "), show(body, text)),
            ExprKind::Index(value, index) => format!("({}[{}])", show(value, text), show(index, text)),
            ExprKind::Call(name, args) if args.iter().any(|arg| matches!(arg.kind, ExprKind::Lambda(..))) => {
                format!("{name}({})", args.iter().map(|arg| show(arg, text)).collect::<Vec<_>>().join(" "))
            }
            ExprKind::Call(name, args) => format!("{name}/{}", args.len()),
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Literal(_) | ExprKind::Column(_) => text[expr.span.clone()].to_string(),
        }
    }
    show(&parse(text).unwrap(), text)
}

#[test]
fn precedence_is_that_of_the_manual() {
    assert_eq!(shape("a || b && c == d < e + f * -g.h[1]"), "(a || (b && (c == (d < (e + (f * (-((g.h)[1]))))))))");
    assert_eq!(shape("a - b - c"), "((a - b) - c)");
    assert_eq!(shape("a ?? b || c"), "(a ?? (b || c))");
    assert_eq!(shape("a ? b : c ? d : e"), "(a ? b : (c ? d : e))");
    assert_eq!(shape("!a in [1, 2,]"), "((!a) in 2)");
    assert_eq!(shape("1--2"), "(1 - (-2))");
    assert_eq!(shape("(a < b) < c"), "((a < b) < c)");
}

#[test]
fn lists_objects_ranges_and_lambdas_are_read() {
    assert_eq!(shape("[1, [a + b,], []]"), "[1 [(a + b)] []]");
    assert_eq!(shape("{a: 1, 'b c': [2], `d`: {},}"), "{a:1 b c:[2] d:{}}");
    assert_eq!(shape("a in 1..b + 1 && c"), "((a in 1..(b + 1)) && c)");
    assert_eq!(shape("a in 1.5..2.5"), "(a in 1.5..2.5)");
    assert_eq!(shape("a in tags"), "(a in tags)");
    assert_eq!(shape("a in [1, 2][0]"), "(a in ([1 2][0]))");
    assert_eq!(shape("a?.b.c"), "((a?.b).c)");
    assert_eq!(shape("a ? b : c?.d"), "(a ? b : (c?.d))");
    assert_eq!(shape("map(a, x -> x + 1)"), "map(a (x -> (x + 1)))");
    assert_eq!(shape("map(a, (x, `i j`) -> x)[0]"), "(map(a (x i j -> x))[0])");
    assert_eq!(shape("f((a), (b) -> b ? 1 : 2)"), "f((a) (b -> (b ? 1 : 2)))");
}

#[test]
fn mistakes_say_what_was_expected_and_where() {
    for (text, message, column) in [
        ("a +", "expected a value, but the expression ends here", 4),
        ("a = 1", "`=` is not an operator, write `==` to compare", 3),
        ("a < b < c", "comparisons cannot be chained, write `a < b && b < c`", 1),
        ("f(1", "expected `,` or `)`, but the expression ends here", 4),
        ("a ? 1", "expected `:` and the other value of `?`, but the expression ends here", 6),
        ("a b", "expected an operator or the end, found `b`", 3),
        ("a -> 1", "a lambda stands only as an argument of a function such as `map`, found `->`", 3),
        ("f((x, x) -> 1)", "the lambda has two parameters named `x`", 7),
        ("{1: 2}", "expected the name of a member, found `1`", 2),
        ("{a 2}", "expected `:` and the member's value, found `2`", 4),
        ("a?.", "expected the name of a member after `?.`, but the expression ends here", 4),
        ("a.1", "expected the name of a member after `.`, found `1`", 3),
        ("", "expected a value, but the expression ends here", 1),
    ] {
        let found = parse(text).unwrap_err();
        assert_eq!((found.message.as_str(), found.column), (message, column), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for deep in [
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}1", "-".repeat(100_000)),
        format!("{}true", "!".repeat(100_000)),
        format!("1{}", " + 1".repeat(100_000)),
        format!("{}1", "true ? 1 : ".repeat(50_000)),
        format!("a{}", ".b".repeat(100_000)),
        format!("{}1", "f(".repeat(100_000)),
        "[".repeat(100_000),
        "{a:".repeat(100_000),
        "f(x -> ".repeat(100_000),
        "a?.b in ".repeat(50_000) + "a",
    ] {
        assert!(parse(&deep).unwrap_err().message.contains("nested deeper"));
    }
    assert!(parse(&format!("{}1{}", "(".repeat(150), ")".repeat(150))).is_ok());
    assert!(parse(&format!("1{}", " + 1".repeat(150))).is_ok());
    assert!(parse(&" ".repeat(MAX_LENGTH + 1)).unwrap_err().message.contains("at most"));
}
