"""Wishes that no registry of this kind serves: what they score says what a score is worth (`calibration`).

Written for Bitong. Half of them ask as one asks an assistant, since unrelated wishes share verbs with related ones. They are
spread thin over everyday life: a registry that does serve one of these trades meets few of its lines.
"""

from typing import Final

CHINESE: Final = """
红烧肉要炖多久才软
糖醋排骨的做法
包饺子的面怎么和
蛋糕烤塌了是为什么
隔夜的米饭能炒着吃吗
泡菜坛子里长白膜了还能吃不
推荐一道适合夏天的凉菜
豆浆煮到什么程度才算熟
周末想露营，附近有没有好地方
去云南玩五天大概要准备什么衣服
坐船头晕怎么办
第一次出国过海关紧张
民宿和酒店哪个划算
帮我规划一条环青海湖的自驾路线
飞机上能带充电宝吗
爬黄山要几个小时
小孩半夜发烧怎么降温
嗓子疼吃点什么好
每天走一万步对身体好吗
怎么戒掉熬夜的习惯
体检说尿酸有点高
打完疫苗胳膊酸正常吗
腰疼睡硬床还是软床
眼睛干涩滴什么药水
给三岁女儿讲个睡前故事
青春期的儿子不愿意跟我说话
幼儿园入园要带哪些东西
跟婆婆相处有什么诀窍
男朋友忘了纪念日我该生气吗
怎么婉拒同事的饭局
相亲第一次见面聊什么
朋友借钱不还怎么开口
给妈妈挑个生日礼物
婚礼上伴郎要说几句什么
狗狗晚上乱叫怎么训练
鱼缸里的水老是发绿
仓鼠冬天会冬眠吗
多肉多久浇一次水
葡萄藤什么时候剪枝
白衬衫领口的黄渍怎么洗
羽绒服能放洗衣机吗
梨形身材穿什么裙子显瘦
冬天嘴唇起皮用什么唇膏
头发出油快，几天洗一次合适
单眼皮画什么眼线好看
木地板有划痕怎么修补
马桶堵了有什么土办法
卧室刷什么颜色的墙显大
新房除甲醛最快的方法
灯泡忽明忽暗是接触不良吗
换季被子怎么收纳
二手车过户要带什么证件
轮胎多久换一次
公积金能提出来付房租吗
房贷提前还款合不合算
工资条上的社保怎么扣的
信用卡逾期一天会怎样
买基金亏了要不要割肉
今年个税退税什么时候到账
黄金现在能入手吗
退休以后养老金有多少
面试的时候怎么介绍自己的缺点
年终总结不会写
辞职要提前几天讲
高考志愿怎么选学校
二次函数的顶点怎么求
光合作用发生在哪里
为什么天空是蓝色的
恐龙是怎么灭绝的
月球背面有什么
唐朝一共有多少个皇帝
赤壁之战谁赢了
红楼梦里最可怜的人是谁
写一首关于秋天的七言绝句
给公司年会想个有趣的小品
帮我对个下联：春风又绿江南岸
有没有好听的民谣
学画素描从哪里开始
毛笔字的横怎么写得平
昨晚那场球谁进的球
羽毛球拍线多少磅合适
跑步膝盖内扣怎么纠正
象棋开局走什么好
麻将里清一色算几番
三国杀新手玩哪个武将
这部电视剧的大结局是什么意思
周星驰最好笑的是哪一部
有什么治愈系的动画片
过年走亲戚送什么体面
端午节为什么要吃粽子
清明扫墓有什么讲究
属兔的今年运势如何
梦见掉牙是什么意思
水逆期间要注意什么
给双胞胎起个小名
你今天过得开心吗
说一句鼓励我的话
人活着到底为了什么
帮我订一束玫瑰周五送到
查一下去苏州的高铁还有没有票
提醒我晚上八点给爸爸打电话
播放一段下雨的白噪音
推荐附近好吃的火锅店
把闹钟往后推十分钟
帮我翻译一下这份日文菜单
打开客厅的灯
给我讲讲埃及的金字塔
算一下三个人平摊饭钱每人多少
查查明天的气温
帮我写一封道歉信给女朋友
找个离我近的停车场
把今晚的电影票退掉
帮我挑一款三千块的手机
搜一下失眠的偏方
记一下我今天吃了两碗米饭
叫个外卖，要少辣
帮我抢一张演唱会门票
列个婚礼要买的东西的单子
帮我比较一下两款洗衣机
给这张全家福起个标题
把这首歌加到我的歌单
查一下我的话费余额
导航去最近的医院
生成一张生日贺卡
更新一下我的健身计划
取消明天的理发预约
统计一下我这个月花了多少钱买奶茶
帮我看看这个包是不是真皮的
看一下北京时间现在几点
帮我改一改这篇读后感
关掉卧室的空调
给奶奶发条拜年的祝福
帮我解释一下这句古诗
创建一个减肥打卡群
删掉我购物车里的那双鞋
检查一下我的签证材料齐不齐
帮我测测我的性格适合什么职业
上传我的自拍当头像
帮孩子检查一下数学作业
预约周六上午的牙医
看看我的快件签收了吗
比较一下这几家保险哪家好
帮我跑个腿买药
把沙发换个位置好看吗
开始一个十分钟的冥想
停止播放，换个电台
给我的盆栽建个浇水表
转五百块给房东
""".strip().splitlines()

LATIN: Final = """
how long should I boil an egg
what goes well with roast chicken
is it safe to refreeze fish
easy vegetarian dinner ideas
how many calories are in an avocado
best way to clean a cast iron pan
do I need to peel ginger
what wine should I bring to a barbecue
how do I get rid of fruit flies
how to stop a tap from dripping
what colour curtains suit a grey sofa
my neighbour plays the drums at night
how often should I water orchids
when is the right season for planting tulips
how much exercise does a beagle need
can rabbits eat cucumber
what should I name my goldfish
my knee hurts when I climb stairs
how do I fall asleep faster
is coffee bad for your heart
what helps against hay fever
how long does a cold usually last
stretching exercises for lower back pain
should I see a dentist about a chipped tooth
how many push-ups can an average person do
training plan for a first half marathon
what size bicycle fits a ten year old
how does offside work in football
who holds the record for the long jump
rules of badminton doubles
good opening moves in chess
teach me a card trick
what is the plot of Hamlet
recommend a funny novel for the beach
who painted the girl with the pearl earring
lyrics about missing home
how do I tune a violin
songs for a wedding dance
which film won best picture in 1994
is there a sequel to that pirate movie
what day is Easter next spring
gift ideas for a retired teacher
how do I write a thank you card
a toast for my brother's wedding
what should I wear to a funeral
how to fold a pocket square
how to remove chewing gum from a carpet
where can I see the northern lights
do I need a visa for Japan
cheapest month to fly to Lisbon
what should I pack for a safari
is the tap water drinkable in Athens
three days in Vienna with children
how tall is Mount Kilimanjaro
why do leaves turn red in autumn
what do hedgehogs eat in winter
how far away is the moon
who was the first queen of England
what caused the fall of Rome
how do volcanoes form
why is the sea salty
what is the past tense of swim in German
how do you say cheers in Finnish
difference between a crocodile and an alligator
how do I ask my boss for a raise
should I rent or buy a flat
how do pensions work
what happens if I miss a mortgage payment
can I deduct my commute from taxes
how do I bargain at a flea market
how to comfort someone who lost a parent
what do I talk about on a first date
games for a children's birthday party
how to explain death to a five year old
is it going to snow this weekend
do you believe in ghosts
what is the meaning of life
sing me a lullaby
what is your favourite colour
my horoscope for this week
how do I parallel park
what does the oil light on the dashboard mean
can I wash my car in the rain
how long do winter tyres last
play some relaxing piano music
remind me to call grandma on Sunday
order a large pizza with mushrooms
turn off the lights in the kitchen
find me a hairdresser open on Mondays
what's the weather like in Oslo
add eggs and butter to my shopping list
show me directions to the nearest pharmacy
cancel my gym membership
write a poem about the sea for my wife
compare prices for running shoes
check whether my passport is still valid
set a timer for the pasta
translate this menu from Italian
create a workout schedule for beginners
tell me a story about a brave rabbit
schedule a haircut for Thursday
start the vacuum in the living room
update my status to on holiday
search for cheap flights to Rome
delete the photos from our old trip
convert two cups of flour to grams
read me the latest football results
run a bath at nine tonight
list the best beaches in Spain
send flowers to my mother
calculate the tip for a dinner of sixty
open the garage door
book a cabin for four people in August
track how much water I drink
""".strip().splitlines()
