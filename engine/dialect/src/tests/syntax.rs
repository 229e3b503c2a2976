//! The parser against random text and random trees.

use crate::ast::{Access, Arithmetic, BinaryOp, Compare, Expr, ExprKind, UnaryOp};
use crate::lex::{Token, tokens};
use crate::parse::parse;
use proptest::prelude::*;

/// An expression as text, with every part in parentheses and every name quoted.
fn print(expr: &Expr) -> String {
    let inner = |expr: &Expr| format!("({})", print(expr));
    let all = |items: &[Expr]| items.iter().map(print).collect::<Vec<_>>().join(", ");
    let name = |name: &str| format!("`{}`", name.replace('`', "``"));
    match &expr.kind {
        ExprKind::Null => "null".to_string(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Literal(token) => literal(token),
        ExprKind::Column(column) => name(column),
        ExprKind::Unary(UnaryOp::Not, a) => format!("!{}", inner(a)),
        ExprKind::Unary(UnaryOp::Negate, a) => format!("-{}", inner(a)),
        ExprKind::Binary(op, a, b) => {
            let symbol = match op {
                BinaryOp::Arithmetic(op) => op.symbol(),
                BinaryOp::Compare(op) => op.symbol(),
                BinaryOp::And => "&&",
                BinaryOp::Or => "||",
                BinaryOp::Coalesce => "??",
            };
            format!("{} {symbol} {}", inner(a), inner(b))
        }
        ExprKind::In(value, items) => format!("{} in [{}]", inner(value), all(items)),
        ExprKind::InList(value, list) => format!("{} in {}", inner(value), inner(list)),
        ExprKind::InRange(value, low, high) => format!("{} in {}..{}", inner(value), inner(low), inner(high)),
        ExprKind::If(a, b, c) => format!("{} ? {} : {}", inner(a), inner(b), inner(c)),
        ExprKind::Member(value, Access::Plain, member) => format!("{}.{}", inner(value), name(member)),
        ExprKind::Member(value, Access::NullSafe, member) => format!("{}?.{}", inner(value), name(member)),
        ExprKind::Index(value, index) => format!("{}[{}]", inner(value), print(index)),
        ExprKind::Call(function, args) => format!("{function}({})", all(args)),
        ExprKind::List(items) => format!("[{}]", all(items)),
        ExprKind::Object(members) => {
            let members: Vec<String> = members.iter().map(|(member, value)| format!("{}: {}", name(member), print(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        ExprKind::Lambda(params, body) => {
            let params: Vec<String> = params.iter().map(|param| name(param)).collect();
            format!("({}) -> {}", params.join(", "), print(body))
        }
    }
}

fn literal(token: &Token) -> String {
    match token {
        Token::Integer(value) => value.to_string(),
        Token::Float(value) => format!("{value:?}"),
        Token::Decimal(unscaled, scale) => {
            let digits = format!("{unscaled:0>width$}", width = *scale as usize + 1);
            let (whole, fraction) = digits.split_at(digits.len() - *scale as usize);
            if *scale == 0 { format!("{whole}m") } else { format!("{whole}.{fraction}m") }
        }
        Token::Text(text) => {
            let escaped: String = text.chars().map(|c| if c == '\'' || c == '\\' { format!("\\{c}") } else { c.to_string() }).collect();
            format!("'{escaped}'")
        }
        Token::Duration(millis) => format!("dur'{millis}ms'"),
        Token::Timestamp(..) => "ts'2026-01-31T12:00:00.123Z'".to_string(),
        Token::Name(_) | Token::Quoted(_) | Token::Symbol(_) | Token::End => unreachable!("no literal"),
    }
}

/// The tree without its places.
fn bare(expr: &Expr) -> Expr {
    let one = |expr: &Expr| Box::new(bare(expr));
    let all = |items: &[Expr]| items.iter().map(bare).collect::<Vec<_>>();
    let kind = match &expr.kind {
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Literal(_) | ExprKind::Column(_) => expr.kind.clone(),
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, one(a)),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, one(a), one(b)),
        ExprKind::In(a, items) => ExprKind::In(one(a), all(items)),
        ExprKind::InList(a, b) => ExprKind::InList(one(a), one(b)),
        ExprKind::InRange(a, b, c) => ExprKind::InRange(one(a), one(b), one(c)),
        ExprKind::If(a, b, c) => ExprKind::If(one(a), one(b), one(c)),
        ExprKind::Member(a, access, name) => ExprKind::Member(one(a), *access, name.clone()),
        ExprKind::Index(a, b) => ExprKind::Index(one(a), one(b)),
        ExprKind::Call(name, args) => ExprKind::Call(name.clone(), all(args)),
        ExprKind::List(items) => ExprKind::List(all(items)),
        ExprKind::Object(members) => ExprKind::Object(members.iter().map(|(name, value)| (name.clone(), bare(value))).collect()),
        ExprKind::Lambda(params, body) => ExprKind::Lambda(params.clone(), one(body)),
    };
    node(kind)
}

fn node(kind: ExprKind) -> Expr {
    Expr { kind, span: 0..0, depth: 0 }
}

fn leaf() -> impl Strategy<Value = ExprKind> {
    let timestamp = tokens("ts'2026-01-31T12:00:00.123Z'").unwrap().remove(0).token;
    prop_oneof![
        Just(ExprKind::Null),
        any::<bool>().prop_map(ExprKind::Bool),
        any::<u64>().prop_map(|value| ExprKind::Literal(Token::Integer(value.into()))),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| ExprKind::Literal(Token::Float(value.abs()))),
        (0..10_i128.pow(30), 0_i8..10).prop_map(|(digits, scale)| ExprKind::Literal(Token::Decimal(digits, scale))),
        any::<String>().prop_map(|text| ExprKind::Literal(Token::Text(text))),
        (0..1_i64 << 40).prop_map(|millis| ExprKind::Literal(Token::Duration(millis))),
        Just(ExprKind::Literal(timestamp)),
        any::<String>().prop_map(ExprKind::Column),
    ]
}

fn tree() -> impl Strategy<Value = Expr> {
    let operators = prop_oneof![
        Just(BinaryOp::And),
        Just(BinaryOp::Or),
        Just(BinaryOp::Coalesce),
        proptest::sample::select(vec![Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Modulo])
            .prop_map(BinaryOp::Arithmetic),
        proptest::sample::select(vec![
            Compare::Equal,
            Compare::NotEqual,
            Compare::Less,
            Compare::LessOrEqual,
            Compare::Greater,
            Compare::GreaterOrEqual
        ])
        .prop_map(BinaryOp::Compare),
    ];
    leaf().prop_map(node).prop_recursive(6, 48, 4, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let items = prop::collection::vec(inner.clone(), 0..4);
        let access = proptest::sample::select(vec![Access::Plain, Access::NullSafe]);
        let unary = proptest::sample::select(vec![UnaryOp::Not, UnaryOp::Negate]);
        // A list behind `in` is read as the list that is written out.
        let no_list = boxed.clone().prop_filter("a list", |list| !matches!(list.kind, ExprKind::List(_)));
        let params = prop::collection::btree_set(any::<String>(), 1..3).prop_map(|names| names.into_iter().collect::<Vec<_>>());
        let lambda = (params, boxed.clone()).prop_map(|(params, body)| node(ExprKind::Lambda(params, body)));
        let arg = prop_oneof![3 => inner.clone(), 1 => lambda];
        prop_oneof![
            (unary, boxed.clone()).prop_map(|(op, a)| ExprKind::Unary(op, a)),
            (operators.clone(), boxed.clone(), boxed.clone()).prop_map(|(op, a, b)| ExprKind::Binary(op, a, b)),
            (boxed.clone(), items.clone()).prop_map(|(a, items)| ExprKind::In(a, items)),
            (boxed.clone(), no_list).prop_map(|(a, b)| ExprKind::InList(a, b)),
            (boxed.clone(), boxed.clone(), boxed.clone()).prop_map(|(a, b, c)| ExprKind::InRange(a, b, c)),
            (boxed.clone(), boxed.clone(), boxed.clone()).prop_map(|(a, b, c)| ExprKind::If(a, b, c)),
            (boxed.clone(), access, any::<String>()).prop_map(|(a, access, name)| ExprKind::Member(a, access, name)),
            (boxed.clone(), boxed).prop_map(|(a, b)| ExprKind::Index(a, b)),
            ("[a-z][a-zA-Z0-9_]{3,8}", prop::collection::vec(arg, 0..4)).prop_map(|(name, args)| ExprKind::Call(name, args)),
            items.prop_map(ExprKind::List),
            prop::collection::vec((any::<String>(), inner), 0..4).prop_map(ExprKind::Object),
        ]
        .prop_map(node)
    })
}

proptest! {
    #[test]
    fn a_printed_tree_reads_back(tree in tree()) {
        let text = print(&tree);
        let found = parse(&text).unwrap_or_else(|mistake| panic!("{}", mistake.render(&text)));
        prop_assert_eq!(bare(&found), tree);
    }

    #[test]
    fn random_text_is_read_or_refused(text in any::<String>()) {
        if let Err(mistake) = parse(&text) {
            prop_assert!(mistake.span.end <= text.len());
            mistake.render(&text);
        }
    }

    #[test]
    fn random_marks_are_read_or_refused(text in "[-a-c0-2'\"`.?:,=<>!&|+*/%()\\[\\]{}\\\\ \n]{0,40}") {
        if let Err(mistake) = parse(&text) {
            prop_assert!(mistake.span.end <= text.len());
            mistake.render(&text);
        }
    }

    #[test]
    fn a_tree_cut_anywhere_is_read_or_refused(tree in tree(), at in any::<proptest::sample::Index>()) {
        let text = print(&tree);
        let cut: String = text.chars().take(at.index(text.chars().count() + 1)).collect();
        let _ = parse(&cut);
    }
}
