//! A seeded source of values and of expressions.

use super::calls::Calls;

/// SplitMix64: small, seeded, the same on every machine.
pub(super) struct Random<'a> {
    state: u64,
    calls: &'a Calls,
    /// The parameters of the lambdas around what is written, with the families of their types.
    params: Vec<(&'static str, String)>,
}

pub(super) const WORDS: [&str; 12] =
    ["", "a", "bid", "Größe", "ÄÖÜß", " trim me ", "12", "-7.5", "x/y/z", "long enough to leave the inline view", "İ", "😀a😀"];

impl<'a> Random<'a> {
    pub(super) fn new(seed: u64, calls: &'a Calls) -> Self {
        Random { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), calls, params: Vec::new() }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(super) fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(6) == 0 { None } else { Some(value(self)) }
    }

    pub(super) fn integer(&mut self) -> i64 {
        match self.below(8) {
            0 => self.pick(&[i64::MIN, i64::MAX, i64::MIN + 1, -1, 0, 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1]),
            1 => self.next() as i64,
            2 => (self.next() as i64) >> 32,
            _ => self.below(40) as i64 - 15,
        }
    }

    pub(super) fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => self.pick(&[f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324]),
            1 => f64::from_bits(self.next()),
            2 => self.integer() as f64,
            _ => (self.below(4_000) as f64 - 2_000.0) / 8.0,
        }
    }

    pub(super) fn decimal(&mut self, digits: u32) -> i128 {
        let most = 10_i128.pow(digits) - 1;
        match self.below(5) {
            0 => self.pick(&[most, -most, 0, 1, -1]),
            1 => (i128::from(self.next()) << 60) % most,
            _ => i128::from(self.below(100_000) as i64 - 50_000),
        }
    }

    pub(super) fn ticks(&mut self) -> i64 {
        match self.below(6) {
            0 => self.pick(&[i64::MIN, i64::MAX, -1, 0, 86_399_999]),
            1 => self.next() as i64 >> 12,
            _ => 1_700_000_000_000 + (self.next() as i64 >> 30),
        }
    }

    // What follows writes expressions, each of a class of types, at most `depth` levels deep.

    fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            if let Some(param) = self.param("bool") {
                return param;
            }
            return self.pick(&["b", "b2", "true", "false", "b"]).to_string();
        }
        let below = depth - 1;
        match self.below(22) {
            15 => {
                let (list, x) = (self.list_of("number", below), self.name());
                format!("{}({list}, {x} -> {})", self.pick(&["any", "all"]), self.body(x, "number", "bool", below))
            }
            16 => format!("({} in {})", self.number(below), self.list_of("number", below)),
            17 => format!("({} in {}..{})", self.number(below), self.number(0), self.number(0)),
            18 => {
                let family = self.pick(&["list<number>", "list<text>", "list<list<number>>", "object", "list<object>"]);
                format!("({} {} {})", self.of(family, below), self.pick(&["==", "!="]), self.of(family, below))
            }
            19 | 20 => self.any_call("bool", below),
            21 => format!("contains({}, {})", self.list_of("text", below), self.text(below)),
            0 | 1 => format!("({} && {})", self.bool(below), self.bool(below)),
            2 => format!("({} || {})", self.bool(below), self.bool(below)),
            3 => format!("!{}", self.bool(0)),
            4 => format!("({} ? {} : {})", self.bool(below), self.bool(below), self.bool(below)),
            5 => format!("({} {} {})", self.text(below), self.comparison(), self.text(below)),
            6 => format!("({} {} {})", self.time(below), self.comparison(), self.time(below)),
            7 => format!("({} {} null)", self.any(below), self.pick(&["==", "!="])),
            8 => format!("isNull({})", self.any(below)),
            9 => {
                let (items, value) = ((0..1 + self.below(4)).map(|_| self.number(0)).collect::<Vec<_>>(), self.number(below));
                format!("({value} in [{}])", items.join(", "))
            }
            10 => {
                let items = (0..1 + self.below(4)).map(|_| self.quoted()).collect::<Vec<_>>();
                format!("({} in [{}])", self.text(below), items.join(", "))
            }
            11 => {
                let (name, text) = (self.pick(&["contains", "startsWith", "endsWith"]), self.text(below));
                format!("{name}({text}, {})", self.text(0))
            }
            12 => format!("regexMatch({}, r'{}')", self.text(below), self.pick(&[r"\d+", "^[a-z]+$", "ß|x", ""])),
            13 => format!("({} == {})", self.bool(below), self.bool(below)),
            _ => format!("({} {} {})", self.number(below), self.comparison(), self.number(below)),
        }
    }

    fn comparison(&mut self) -> &'static str {
        self.pick(&["==", "!=", "<", "<=", ">", ">="])
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            if let Some(param) = self.param("number") {
                return param;
            }
            return match self.below(4) {
                0 => self.number_literal(),
                _ => self
                    .pick(&["i", "i2", "i8", "i16", "i32", "u8", "u32", "u64", "f", "f2", "f32", "d", "e", "st.a", "l[1]", "l[i8]", "z"])
                    .to_string(),
            };
        }
        let below = depth - 1;
        match self.below(26) {
            20..=22 => self.any_call("number", below),
            23 => format!(
                "reduce({}, {}, (sum, w) -> sum + w)",
                self.pick(&["l", "lf", "large", "map(ls, s -> length(s))"]),
                self.pick(&["0", "0.0"])
            ),
            24 => format!("{}[{}]", self.list_of("number", below), self.whole()),
            25 => format!("try({})", self.number(below)),
            0..=7 => format!("({} {} {})", self.number(below), self.pick(&["+", "-", "*", "/", "%"]), self.number(below)),
            8 => format!("-{}", self.number(0)),
            9 => format!("({} ? {} : {})", self.bool(below), self.number(below), self.number(below)),
            10 => format!("({} ?? {})", self.number(below), self.number(below)),
            11 => format!("coalesce({}, {}, {})", self.number(below), self.number(below), self.number(below)),
            12 => format!("{}({})", self.pick(&["abs", "floor", "ceil", "round", "toInt", "toNumber"]), self.number(below)),
            13 => format!("round({}, {})", self.number(below), self.below(8)),
            14 => format!("div({}, {})", self.whole(), self.whole()),
            15 => format!("({} - {})", self.time(below), self.time(below)),
            16 => {
                let name =
                    self.pick(&["year", "month", "day", "hourOf", "minute", "second", "dayOfWeek", "dayOfYear", "toInt", "toNumber"]);
                format!("{name}({})", self.time(below))
            }
            17 => format!("{}({})", self.pick(&["toNumber", "toInt", "length"]), self.text(below)),
            18 => format!("(l ?? l)[{}]", self.whole()),
            _ => format!("({} % {})", self.whole(), self.pick(&["123", "1", "-1", "2", "10", "-7", "9223372036854775807"])),
        }
    }

    fn whole(&mut self) -> &'static str {
        self.pick(&["i", "i2", "i8", "i16", "i32", "u8", "u32", "u64", "3", "-2", "0", "1"])
    }

    fn number_literal(&mut self) -> String {
        match self.below(4) {
            0 => format!("({:?})", self.pick(&[0.5, -1.25, 0.0, -0.0, 1e300, 3.0, 9007199254740992.0])),
            1 => self.pick(&["1.50m", "(-0.001m)", "100m", "99999999999999999999.5m"]).to_string(),
            _ => match self.integer() {
                value if value < 0 => format!("({value})"),
                value => value.to_string(),
            },
        }
    }

    fn quoted(&mut self) -> String {
        format!("'{}'", self.pick(&WORDS))
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            if let Some(param) = self.param("text") {
                return param;
            }
            return match self.below(4) {
                0 => self.quoted(),
                _ => self.pick(&["s", "s2", "s3", "st.s", "dict"]).to_string(),
            };
        }
        let below = depth - 1;
        match self.below(18) {
            14..=16 => self.any_call("text", below),
            17 => format!("{{a: {}, b: {}}}['b']", self.number(0), self.text(below)),
            0 | 1 => format!("{}({})", self.pick(&["lower", "upper", "trim"]), self.text(below)),
            2 => format!("substring({}, {}, {})", self.text(below), self.whole(), self.whole()),
            3 => format!("substring({}, {})", self.text(below), self.whole()),
            4 => format!("splitPart({}, {}, {})", self.text(below), self.pick(&["'/'", "''", "s2", "' '"]), self.whole()),
            5 => format!("concat({}, {})", self.text(below), self.any_with_text(below)),
            6 => format!("({} + {})", self.text(below), self.text(below)),
            7 => format!("replace({}, {}, {})", self.text(below), self.text(0), self.text(0)),
            8 => format!("toString({})", self.any_with_text(below)),
            9 => format!("epochToIso({})", self.time(below)),
            10 => format!("({} ? {} : {})", self.bool(below), self.text(below), self.text(below)),
            11 => format!("({} ?? {})", self.text(below), self.text(below)),
            12 => format!("regexExtract({}, r'{}')", self.text(below), self.pick(&[r"(\d)\d", "[a-z]+", "(x)|(y)", "ß"])),
            _ => format!("(({}) ? {} : null)", self.bool(below), self.text(below)),
        }
    }

    fn time(&mut self, depth: usize) -> String {
        if depth == 0 {
            if let Some(param) = self.param("time") {
                return param;
            }
            return self
                .pick(&[
                    "t",
                    "t2",
                    "ts",
                    "tu",
                    "tn",
                    "tz",
                    "day",
                    "now()",
                    "ts'2024-02-29T12:34:56.789Z'",
                    "ts'1969-12-31T23:59:59.999999Z'",
                ])
                .to_string();
        }
        let below = depth - 1;
        match self.below(9) {
            7 | 8 => self.any_call("time", below),
            0 | 1 => {
                format!("({} {} {})", self.time(below), self.pick(&["+", "-"]), self.pick(&["i", "i8", "u32", "1", "dur'1h30m'", "u64"]))
            }
            2 => format!("({} ? {} : {})", self.bool(below), self.time(below), self.time(below)),
            3 => format!("({} ?? {})", self.time(below), self.time(below)),
            4 | 5 => {
                let unit = self.pick(&["millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]);
                format!("dateTrunc('{unit}', {})", self.time(below))
            }
            _ => self.time(0),
        }
    }

    /// An expression of any type.
    pub(super) fn anything(&mut self, depth: usize) -> String {
        match self.below(10) {
            0 | 1 => self.bool(depth),
            2 | 3 => self.number(depth),
            4 => self.text(depth),
            5 => self.time(depth),
            6 => format!("try({})", self.any(depth)),
            _ => {
                let names = self.calls.names();
                let name = self.pick(&names);
                self.call(name, depth - 1).unwrap_or_else(|| "null".to_string())
            }
        }
    }

    fn any(&mut self, depth: usize) -> String {
        match self.below(6) {
            0 => {
                let columns = self.calls.columns(None);
                self.pick(&columns).to_string()
            }
            1 => {
                let family = self.pick(&["list<number>", "list<text>", "object", "list<list<number>>", "list<time>"]);
                self.of(family, depth)
            }
            _ => self.any_with_text(depth),
        }
    }

    /// An expression of a family of types, or `null`.
    fn of(&mut self, family: &str, depth: usize) -> String {
        match family {
            "bool" => self.bool(depth),
            "number" => self.number(depth),
            "text" => self.text(depth),
            "time" => self.time(depth),
            "list<number>" => self.list_of("number", depth),
            "list<text>" => self.list_of("text", depth),
            "object" if self.below(3) == 0 => format!("{{a: {}, s: {}}}", self.number(0), self.text(0)),
            _ => self.leaf(family, depth),
        }
    }

    fn leaf(&mut self, family: &str, depth: usize) -> String {
        if depth > 0 && self.below(2) == 0 {
            return self.any_call(family, depth - 1);
        }
        let columns = self.calls.columns(Some(family));
        if columns.is_empty() { "null".to_string() } else { self.pick(&columns).to_string() }
    }

    fn list_of(&mut self, item: &str, depth: usize) -> String {
        let family = format!("list<{item}>");
        if depth == 0 {
            return self.param(&family).unwrap_or_else(|| self.leaf(&family, 0));
        }
        let below = depth - 1;
        match self.below(6) {
            0 => {
                let items: Vec<String> = (0..self.below(4)).map(|_| self.of(item, below)).collect();
                format!("[{}]", items.join(", "))
            }
            1 => {
                let from = self.pick(&["number", "text"]);
                let (list, x) = (self.list_of(from, below), self.name());
                format!("map({list}, {x} -> {})", self.body(x, from, item, below))
            }
            2 => {
                let (list, x) = (self.list_of(item, below), self.name());
                format!("filter({list}, ({x}, i{x}) -> {} || i{x} == 1)", self.body(x, item, "bool", below))
            }
            3 => {
                let (list, x) = (self.list_of(item, below), self.name());
                format!("sortBy({list}, {x} -> {})", self.body(x, item, "number", below))
            }
            _ => self.leaf(&family, depth),
        }
    }

    /// The body of a lambda.
    fn body(&mut self, name: &'static str, param: &str, family: &str, depth: usize) -> String {
        self.params.push((name, param.to_string()));
        let body = self.of(family, depth);
        self.params.pop();
        body
    }

    /// A parameter's name; lambdas may use one that is used around them.
    fn name(&mut self) -> &'static str {
        self.pick(&["x", "y", "i"])
    }

    fn param(&mut self, family: &str) -> Option<String> {
        let known: Vec<&'static str> = self.params.iter().filter(|(_, of)| of == family).map(|(name, _)| *name).collect();
        if known.is_empty() || self.below(2) == 0 { None } else { Some(self.pick(&known).to_string()) }
    }

    /// A call of some function with a result of the family.
    fn any_call(&mut self, family: &str, depth: usize) -> String {
        let names = self.calls.giving(family);
        if names.is_empty() {
            return self.leaf(family, 0);
        }
        let name = self.pick(&names);
        self.call(name, depth).unwrap_or_else(|| "null".to_string())
    }

    /// A call of a function, as an example calls it but with other arguments.
    pub(super) fn call(&mut self, name: &str, depth: usize) -> Option<String> {
        let calls = self.calls.of(name);
        if calls.is_empty() {
            return None;
        }
        let call = self.pick(&calls);
        let args: Vec<String> = call
            .args
            .iter()
            .map(|arg| match self.below(6) {
                // As the example has it.
                _ if arg.columns.is_empty() => arg.text.clone(),
                0 => arg.text.clone(),
                1 | 2 if depth > 0 => self.of(&arg.family, depth - 1),
                _ => {
                    let columns: Vec<&str> = arg.columns.iter().map(String::as_str).collect();
                    self.pick(&columns).to_string()
                }
            })
            .collect();
        Some(format!("{}({})", call.name, args.join(", ")))
    }

    fn any_with_text(&mut self, depth: usize) -> String {
        match self.below(4) {
            0 => self.bool(depth),
            1 => self.number(depth),
            2 => self.text(depth),
            _ => self.time(depth),
        }
    }
}
