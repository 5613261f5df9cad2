//! The functions of the measured programs: a mix as services have, each in three forms.

use super::program::Program;

/// The number of functions of each shape.
const COPIES: usize = 25;

/// The number of locked functions of a program.
pub(super) const FUNCTIONS: usize = SHAPES.len() * COPIES;

/// One kind of locked function; `$N` stands for the number of the copy.
pub(super) struct Shape {
    pub(super) name: &'static str,
    method: bool,
    params: &'static str,
    arguments: &'static str,
    key: &'static str,
    /// Each option as the attribute has it, and as a call by hand.
    options: &'static [(&'static str, &'static str)],
    output: &'static str,
    body: &'static str,
}

const TTL: (&str, &str) = (r#"ttl = "30s""#, ".ttl(Duration::from_secs(30))");
const WAIT: (&str, &str) = (r#"wait = "5s""#, ".wait(Duration::from_secs(5))");
const NEVER: (&str, &str) = ("wait = never", ".wait(Wait::Never)");

pub(super) const SHAPES: [Shape; 8] = [
    Shape {
        name: "settle",
        method: false,
        params: "shop: &Shop, id: u64, amount: u64",
        arguments: "shop, number + $N, number / 3",
        key: "order:<id>",
        options: &[TTL],
        output: "u64",
        body: "\
let open = shop.load(id).await?;
if open < amount + $N {
    return Err(Error::Refused);
}
shop.save(id, open - amount).await?;
Ok(open - amount)",
    },
    Shape {
        name: "restock",
        method: false,
        params: "shop: &Shop, shelf: &str, item: u64",
        arguments: "shop, text, number + $N",
        key: "stock:<shelf>/<item>",
        options: &[TTL, WAIT],
        output: "u64",
        body: "\
let mut amount = shop.load(item).await.unwrap_or(0);
for box_of_ten in 0..shelf.len() as u64 {
    amount += box_of_ten * 10 + $N;
    shop.save(item, amount).await?;
}
Ok(amount)",
    },
    Shape {
        name: "charge",
        method: true,
        params: "&self, account: u64, amount: u64",
        arguments: "number + $N, 7",
        key: "account:<self.tenant>:<account>",
        options: &[TTL],
        output: "u64",
        body: "\
let balance = self.load(account).await?.saturating_sub(amount + $N);
self.save(account, balance).await?;
if balance == 0 {
    self.tell(\"empty\").await?;
}
Ok(balance)",
    },
    Shape {
        name: "report",
        method: false,
        params: "shop: &Shop, day: u32",
        arguments: "shop, number as u32 + $N",
        key: "report:<day>",
        options: &[NEVER],
        output: "String",
        body: "\
let total = shop.load(u64::from(day)).await?;
let report = format!(\"day {day}: {total} of $N\");
shop.tell(&report).await?;
Ok(report)",
    },
    Shape {
        name: "import",
        method: true,
        params: "&self, orders: Vec<u64>",
        arguments: "vec![number + $N; 3]",
        key: "import:<self.tenant>",
        options: &[TTL, WAIT],
        output: "()",
        body: "\
for order in orders {
    match self.load(order).await {
        Ok(amount) => self.save(order, amount + $N).await?,
        Err(Error::Missing(id)) => self.save(id, 0).await?,
        Err(error) => return Err(error),
    }
}
Ok(())",
    },
    Shape {
        name: "rename",
        method: false,
        params: "shop: &Shop, customer: u64, name: String",
        arguments: "shop, number + $N, text.to_owned()",
        key: "customer:<customer>",
        options: &[],
        output: "String",
        body: "\
let visits = shop.load(customer).await?;
shop.save(customer, visits + $N).await?;
shop.tell(&name).await?;
Ok(name)",
    },
    Shape {
        name: "transfer",
        method: true,
        params: "&self, from: u64, to: u64",
        arguments: "number + $N, number * 2",
        key: "transfer:<from>/<to>",
        options: &[WAIT],
        output: "()",
        body: "\
let amount = self.load(from).await?;
self.save(from, 0).await?;
let before = self.load(to).await.unwrap_or($N);
self.save(to, before + amount).await",
    },
    Shape {
        name: "expire",
        method: false,
        params: "shop: &Shop, id: u64",
        arguments: "shop, number + $N",
        key: "order:<id>",
        options: &[TTL, NEVER],
        output: "()",
        body: "\
if shop.load(id).await? > $N {
    shop.save(id, 0).await?;
}
Ok(())",
    },
];

const MODULE: &str = "\
use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockKey, Wait, distributed_lock};

use crate::shop::{Error, Result, Shop, locks};

FUNCTIONS
pub type Job<'a> = Pin<Box<dyn Future<Output = Result<OUTPUT>> + 'a>>;

pub fn all<'a>(shop: &'a Shop, number: u64, text: &'a str) -> Vec<Job<'a>> {
    vec![
CALLS
    ]
}
";

/// As short as the meaning of the attribute can be written: the body is cancelled when the lease
/// is lost, the release is awaited, and its answer counts.
const BY_HAND: &str = "\
let key = KEY;
let guard = LOCKS.lock(key)OPTIONS.acquire().await?;
let output = guard.run_while_held(async move {
BODY
}).await?;
guard.release().await?;
output";

impl Shape {
    /// The module of this shape's functions, with `all`, which makes a call of each.
    pub(super) fn module(&self, program: Program) -> String {
        let functions = join((0..COPIES).map(|copy| self.function(program, copy)));
        let functions = if self.method {
            format!("impl Shop {{\n{functions}}}")
        } else {
            functions
        };
        let receiver = if self.method { "shop." } else { "" };
        let calls = join((0..COPIES).map(|copy| {
            let arguments = self.arguments.replace("$N", &copy.to_string());
            format!("Box::pin({receiver}{}_{copy}({arguments})),", self.name)
        }));
        MODULE
            .replace("FUNCTIONS", &functions)
            .replace("OUTPUT", self.output)
            .replace("CALLS", &calls)
    }

    fn function(&self, program: Program, copy: usize) -> String {
        let Self {
            name,
            params,
            output,
            body,
            ..
        } = self;
        let (attribute, body) = match program {
            Program::Attribute => (self.attribute(), (*body).to_owned()),
            Program::ByHand => (String::new(), self.by_hand()),
            Program::Unlocked => (String::new(), (*body).to_owned()),
        };
        format!(
            "{attribute}pub async fn {name}_{copy}({params}) -> Result<{output}> {{\n{}\n}}\n",
            body.replace("$N", &copy.to_string())
        )
    }

    fn attribute(&self) -> String {
        let options = self.options.iter().map(|(option, _)| *option);
        let manager = self.method.then_some("manager = self.locks");
        let options: Vec<&str> = options.chain(manager).collect();
        let key = self.key;
        format!(
            "#[distributed_lock(key = {key:?}, {})]\n",
            options.join(", ")
        )
    }

    fn by_hand(&self) -> String {
        let options: String = self.options.iter().map(|(_, call)| *call).collect();
        let locks = if self.method {
            "self.locks"
        } else {
            "locks()?"
        };
        BY_HAND
            .replace("KEY", &self.key_by_hand())
            .replace("LOCKS", locks)
            .replace("OPTIONS", &options)
            .replace("BODY", self.body)
    }

    fn key_by_hand(&self) -> String {
        let pieces = self.key.split(['<', '>']).enumerate();
        let calls = pieces.map(|(index, piece)| match (index % 2, piece) {
            (_, "") => String::new(),
            (0, text) => format!(".text({text:?})"),
            (_, value) => format!(".part(&{value})"),
        });
        format!("LockKey::builder(){}.build()?", calls.collect::<String>())
    }
}

fn join(pieces: impl Iterator<Item = String>) -> String {
    pieces.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_differ_in_the_lock_only() {
        let shape = SHAPES.iter().find(|shape| shape.name == "restock").unwrap();
        let [attribute, by_hand, unlocked] = Program::ALL.map(|program| shape.function(program, 7));
        let written =
            r#"#[distributed_lock(key = "stock:<shelf>/<item>", ttl = "30s", wait = "5s")]"#;
        assert_eq!(attribute, format!("{written}\n{unlocked}"));
        let body = shape.body.replace("$N", "7");
        for part in [
            r#"let key = LockKey::builder().text("stock:").part(&shelf).text("/").part(&item).build()?;"#,
            "locks()?.lock(key).ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire()",
            &format!("guard.run_while_held(async move {{\n{body}\n}}).await?;"),
        ] {
            assert!(by_hand.contains(part), "{part} in {by_hand}");
        }
        assert!(unlocked.contains(&body), "{unlocked}");
    }

    #[test]
    fn there_are_as_many_functions_as_are_reported() {
        let functions = SHAPES.iter().map(|shape| {
            let module = shape.module(Program::Attribute);
            module.matches("#[distributed_lock").count()
        });
        assert_eq!(functions.sum::<usize>(), FUNCTIONS);
        assert_eq!(FUNCTIONS, 200);
    }
}
